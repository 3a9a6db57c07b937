# Causal intervention on frame length (Sec. 3.3): one model learns from short clips, one from long
# ones, and their scores are summed.  The split is at the mean train length.
_base_ = [
    '_base_/schedule_planted.py',
    '_base_/planted_confound_features.py',
    '_base_/c2v_features.py',
]

model = dict(
    _delete_=True,
    type='mmvtr.BackdoorRetriever',
    members=[
        dict(
            _base_.model,
            losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
        )
    ]
    * 2,
)
train_dataloader = dict(
    batch_sampler=dict(type='mmvtr.EnvironmentBatchSampler'),
    dataset=dict(environments=dict(type='LengthSplit', parts=2)),
)
custom_hooks = [dict(type='mmvtr.MembersHook')]  # each member alone beside the sum
find_unused_parameters = True  # a step trains one member
train_cfg = dict(max_epochs=24, val_interval=6)
