# CLIP ViT-B/32 on your own videos (docs/own_data.md), zero-shot.
_base_ = ['_base_/zeroshot_own.py']

model = dict(encoder=_base_.encoders.vitb32)
test_dataloader = dict(dataset=_base_.reads.vitb32)
