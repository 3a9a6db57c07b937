# CLIP ViT-L/14 on MSR-VTT 1k-A, zero-shot.
_base_ = ['../zeroshot_msrvtt.py']

model = dict(encoder=_base_.encoders.vitl14)
test_dataloader = dict(dataset=_base_.reads.vitl14)
