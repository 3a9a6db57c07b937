# Complete UATVR on planted clips of three moments, from cached features: extra tokens, learnt
# weights of tokens, and PCME's heads, as in the networks of its tables (docs/uatvr.md).
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_untrimmed_features.py',
    '../../../configs/_base_/uatvr_features.py',
]

model = dict(
    encoder=dict(max_frames=24),
    similarity=dict(weights='uatvr', dim=128),
    heads=dict(type='PCMEGaussianHead'),
)
train_dataloader = dict(dataset=dict(epoch_unit='video'))  # one caption per clip and epoch
val_evaluator = test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
]
train_cfg = dict(max_epochs=24, val_interval=8)
