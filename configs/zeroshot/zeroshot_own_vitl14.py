# CLIP ViT-L/14 on all of your own table (docs/own_data.md), zero-shot.
_base_ = ['../zeroshot_own.py']

model = dict(encoder=_base_.encoders.vitl14)
test_dataloader = dict(dataset=_base_.reads.vitl14)
