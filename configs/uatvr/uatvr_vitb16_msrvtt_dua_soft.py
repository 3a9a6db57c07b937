# UATVR with PCME's soft contrast in place of Eq. 11, on MSR-VTT 1k-A: row "+ DUA*" of Tab. 1.
_base_ = ['uatvr_vitb16_msrvtt_dua.py']

model = dict(objectives=dict(dua=dict(type='SoftContrast')))
