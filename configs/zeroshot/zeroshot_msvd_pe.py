# The Perception Encoder ViT-B/16 on MSVD, zero-shot.
_base_ = ['../zeroshot_msvd.py']

model = dict(encoder=_base_.encoders.pe)
test_dataloader = dict(dataset=_base_.reads.pe)
