# Causal intervention on frame length over RANP, YouCook2 (Tab. 3).
_base_ = ['hgr_youcook2.py', '_base_/ranp.py', '_base_/causal_youcook2.py']

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
