# The Perception Encoder ViT-B/16 on all of your own table (docs/own_data.md), zero-shot.
_base_ = ['../zeroshot_own.py']

model = dict(encoder=_base_.encoders.pe)
test_dataloader = dict(dataset=_base_.reads.pe)
