# RANP on HGR, EPIC-KITCHENS-100 (frame-length paper, Tab. 2).
_base_ = ['hgr_epic.py', '_base_/ranp.py']

model = dict(
    supervision=dict(_base_.ran.supervision, **_base_.ranp.supervision),
    losses=dict(_base_.ran.losses, **_base_.ranp.losses),
)
