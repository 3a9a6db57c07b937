# CLIP ViT-L/14 on MSVD, zero-shot.
_base_ = ['../zeroshot_msvd.py']

model = dict(encoder=_base_.encoders.vitl14)
test_dataloader = dict(dataset=_base_.reads.vitl14)
