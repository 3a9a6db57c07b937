# CLIP4Clip (seqTransf) on MSR-VTT 1k-A: a transformer of 4 layers from CLIP's text tower.
_base_ = [
    '_base_/schedule_clip_5e.py',
    '_base_/msrvtt_1ka.py',
    '_base_/clip4clip_vitb32.py',
    '_base_/train_queue.py',
]

model = dict(
    encoder=dict(aggregator='transformer', temporal_layers=4),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)
