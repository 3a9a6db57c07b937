# RANP on HGR, MSR-VTT Full (frame-length paper, Tab. 9).
_base_ = ['hgr_msrvtt_full.py', '_base_/ranp.py']

model = dict(
    supervision=dict(_base_.ran.supervision, **_base_.ranp.supervision),
    losses=dict(_base_.ran.losses, **_base_.ranp.losses),
)
