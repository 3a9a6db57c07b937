# SigLIP 2 ViT-B/16 on MSR-VTT 1k-A, zero-shot.
_base_ = ['../zeroshot_msrvtt.py']

model = dict(encoder=_base_.encoders.siglip2)
test_dataloader = dict(dataset=_base_.reads.siglip2)
