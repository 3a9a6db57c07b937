# UATVR with PCME's soft contrast summed over the pairs of a batch, as PCME's code has it, in place
# of the mean of uatvr_soft_vitb16_msrvtt.py (UATVR Tab. 1, + KL*; docs/uatvr.md).
_base_ = ['uatvr_vitb16_msrvtt.py']

model = dict(objectives=dict(dua=dict(type='SoftContrast', reduction='sum')))
