# CLIP4Clip (seqTransf) on VATEX, HGR's split: row "CLIP4Clip" of DVTR Tab. V and UATVR Tab. 7.
_base_ = [
    '_base_/vatex.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip4clip_vitb32.py',
]

model = dict(
    encoder=dict(aggregator='transformer', temporal_layers=4),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)
