# Causal intervention on frame length (Sec. 3.3): one model learns from short clips, one from long
# ones, and their scores are summed.  The split is at the mean train length.
_base_ = [
    '_base_/schedule_planted.py',
    '_base_/planted_confound_features.py',
    '_base_/causal_features.py',
]

train_dataloader = dict(
    batch_sampler=dict(type='mmvtr.EnvironmentBatchSampler'),
    dataset=dict(records=dict(environments=dict(type='LengthSplit', parts=2))),
)
train_cfg = dict(max_epochs=24, val_interval=6)
