# Causal intervention on frame length, with members that spare negatives implied by a clip's
# captions (docs/agreement.md): no paper combines the two. One treats a confounder of clips, the
# other an ambiguity of captions.
_base_ = '../../../configs/causal_planted_features.py'

model = dict(
    members=[
        dict(
            _base_.model.members[0],
            supervision=dict(type='ImplicationSupervision', floor=0.07, specific=0.5),
            losses=dict(
                contrastive=dict(
                    type='ContrastiveLoss', reads=('global', 'aligned'), weighted='v2t'
                )
            ),
        )
    ]
    * 2
)
train_dataloader = dict(
    batch_sampler=dict(type='mmvtr.EnvironmentBatchSampler'),
    dataset=dict(
        records=dict(
            environments=dict(type='LengthSplit', parts=2),
            agreement=dict(type='CaptionImplication'),
        )
    ),
)
train_cfg = dict(max_epochs=24, val_interval=6)
