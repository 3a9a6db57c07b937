# SigLIP 2 ViT-B/16 on all of your own table (docs/own_data.md), zero-shot.
_base_ = ['../zeroshot_own.py']

model = dict(encoder=_base_.encoders.siglip2)
test_dataloader = dict(dataset=_base_.reads.siglip2)
