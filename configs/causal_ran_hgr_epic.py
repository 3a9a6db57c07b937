# Causal intervention on frame length over RAN, EPIC-KITCHENS-100 (Tab. 2).
_base_ = ['hgr_epic.py', '_base_/ran.py', '_base_/causal.py']

model = dict(
    _delete_=True,
    type='mmvtr.BackdoorRetriever',
    member=dict(
        _base_.model,
        supervision=_base_.ran.supervision,
        losses=dict(triplet=dict(_base_.model.losses.triplet, **_base_.ran.losses.triplet)),
    ),
    copies=2,
)
train_dataloader = _base_.by_length
