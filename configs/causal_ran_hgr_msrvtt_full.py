# Causal intervention on frame length over RAN, MSR-VTT Full (Tab. 9).
_base_ = ['hgr_msrvtt_full.py', '_base_/ran.py', '_base_/causal_msrvtt.py']

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
