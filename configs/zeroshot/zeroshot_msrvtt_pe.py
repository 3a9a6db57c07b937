# The Perception Encoder ViT-B/16 on MSR-VTT 1k-A, zero-shot.
_base_ = ['../zeroshot_msrvtt.py']

model = dict(encoder=_base_.encoders.pe)
test_dataloader = dict(dataset=_base_.reads.pe)
