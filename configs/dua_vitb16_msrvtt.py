# UATVR without its KL term on MSR-VTT 1k-A (UATVR Tab. 1, + DUA), with the heads of Eq. 9: 163.3 M
# parameters, where Tab. 2 has 164.9 M with PCME's heads and token weights (docs/uatvr.md).
_base_ = ['uatvr_vitb16_msrvtt.py']

model = dict(objectives=dict(kl=dict(loss_weight=0.0)))
