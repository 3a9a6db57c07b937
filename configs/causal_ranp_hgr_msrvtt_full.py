# Causal intervention on frame length over RANP, MSR-VTT Full (Tab. 9).
_base_ = ['hgr_msrvtt_full.py', '_base_/ranp.py', '_base_/causal_msrvtt.py']

model = dict(
    _delete_=True,
    type='mmvtr.BackdoorRetriever',
    member=dict(
        _base_.model,
        supervision=dict(_base_.ran.supervision, **_base_.ranp.supervision),
        losses=dict(
            triplet=dict(_base_.model.losses.triplet, **_base_.ran.losses.triplet),
            **_base_.ranp.losses,
        ),
    ),
    copies=2,
)
train_dataloader = _base_.by_length
