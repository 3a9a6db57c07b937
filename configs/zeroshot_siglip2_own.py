# SigLIP 2 ViT-B/16 on your own videos (docs/own_data.md), zero-shot.
_base_ = ['_base_/zeroshot_own.py']

model = dict(encoder=_base_.encoders.siglip2)
test_dataloader = dict(dataset=_base_.reads.siglip2)
