# UATVR with PCME's soft contrast in place of Eq. 11 on MSR-VTT 1k-A (UATVR Tab. 1, + KL*).
_base_ = ['uatvr_vitb16_msrvtt.py']
# 1k-A has no validation set: the last epoch is tested, and nothing is chosen on the test set.

model = dict(objectives=dict(dua=dict(type='SoftContrast')))
