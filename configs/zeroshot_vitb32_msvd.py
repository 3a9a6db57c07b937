# CLIP ViT-B/32 on MSVD, zero-shot.
_base_ = ['_base_/zeroshot_msvd.py']

model = dict(encoder=_base_.encoders.vitb32)
test_dataloader = dict(dataset=_base_.reads.vitb32)
