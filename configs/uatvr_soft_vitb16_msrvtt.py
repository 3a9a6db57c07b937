# UATVR with PCME's soft contrast in place of Eq. 11 on MSR-VTT 1k-A (UATVR Tab. 1, + KL*).
_base_ = ['uatvr_vitb16_msrvtt.py']

model = dict(objectives=dict(dua=dict(type='SoftContrast')))
