# UATVR with PCME's soft contrast in place of Eq. 11, on MSR-VTT 1k-A: row "+ KL*" of Tab. 1.
_base_ = ['../uatvr_vitb16_msrvtt.py']

model = dict(objectives=dict(dua=dict(type='SoftContrast')))
