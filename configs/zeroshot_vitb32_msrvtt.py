# CLIP ViT-B/32 on MSR-VTT 1k-A, zero-shot.
_base_ = ['_base_/zeroshot_msrvtt.py']

model = dict(encoder=_base_.encoders.vitb32)
test_dataloader = dict(dataset=_base_.reads.vitb32)
