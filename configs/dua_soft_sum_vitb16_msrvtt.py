# PCME's soft contrast, summed, without the KL term on MSR-VTT 1k-A (UATVR Tab. 1, + DUA*).
_base_ = ['uatvr_vitb16_msrvtt.py']

model = dict(
    objectives=dict(dua=dict(type='SoftContrast', reduction='sum'), kl=dict(loss_weight=0.0))
)
