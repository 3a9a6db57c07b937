# Causal intervention on frame length with members that spare what the captions of a clip imply
# (docs/agreement.md): no paper has both.  A confounder of clips and an ambiguity of captions.
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
            losses=dict(
                contrastive=dict(
                    type='ContrastiveLoss', reads=('global', 'aligned'), weighted='v2t'
                )
            ),
            supervision=dict(type='ImplicationSupervision', floor=0.07, specific=0.5),
        )
    ]
    * 2,
)
train_dataloader = dict(
    batch_sampler=dict(type='mmvtr.EnvironmentBatchSampler'),
    dataset=dict(
        agreement=dict(type='CaptionImplication'), environments=dict(type='LengthSplit', parts=2)
    ),
)
custom_hooks = [dict(type='mmvtr.MembersHook')]  # each member alone beside the sum
find_unused_parameters = True  # a step trains one member
train_cfg = dict(max_epochs=24, val_interval=6)
