# CLIP4Clip (seqTransf) on MSVD: row "CLIP4Clip" of DVTR Tab. IV and UATVR Tab. 9.
_base_ = [
    '_base_/schedule_clip_5e.py',
    '_base_/msvd.py',
    '_base_/clip4clip_vitb32.py',
    '_base_/train_queue.py',
]

model = dict(
    encoder=dict(aggregator='transformer', temporal_layers=4),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)
