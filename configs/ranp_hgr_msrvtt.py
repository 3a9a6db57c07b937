# RANP on HGR, MSR-VTT 1k-A (frame-length paper, Tab. 3).
_base_ = ['hgr_msrvtt.py', '_base_/ranp.py']

model = dict(
    supervision=dict(_base_.ran.supervision, **_base_.ranp.supervision),
    losses=dict(_base_.ran.losses, **_base_.ranp.losses),
)
