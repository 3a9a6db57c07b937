# CLIP4Clip (seqTransf) on LSMDC: row "CLIP4Clip" of DVTR Tab. VII.
_base_ = ['_base_/schedule_clip_5e.py', '_base_/lsmdc.py', '_base_/clip4clip_vitb32.py']

model = dict(
    encoder=dict(aggregator='transformer', temporal_layers=4),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)
