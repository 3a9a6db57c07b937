# The control of causal_planted_features.py: parts of the same sizes, drawn at random.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_confound_features.py',
    '../../../configs/_base_/causal_features.py',
]

train_dataloader = dict(
    batch_sampler=dict(type='mmvtr.EnvironmentBatchSampler'),
    dataset=dict(
        records=dict(environments=dict(type='RandomSplit', like=dict(type='LengthSplit', parts=2)))
    ),
)
train_cfg = dict(max_epochs=24, val_interval=6)
