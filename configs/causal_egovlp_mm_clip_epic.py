# Causal intervention on frame length over EgoVLP's loss, EPIC-KITCHENS-100 (Tab. 7).
_base_ = ['egonce_clip_epic.py', '_base_/causal.py']

model = dict(
    _delete_=True,
    type='mmvtr.BackdoorRetriever',
    member=dict(
        _base_.model,
        losses=dict(max_margin=dict(type='AdaptiveMaxMarginLoss', margin=0.4)),
    ),
    copies=2,
)
train_dataloader = dict(
    _base_.by_length,
    dataset=dict(
        _base_.by_length.dataset, split='train_sentences', epoch_unit='video', related=0.1
    ),
)
