# UATVR with PCME's soft contrast in place of Eq. 11 on MSR-VTT 1k-A (UATVR Tab. 1, + KL*).
_base_ = ['uatvr_vitb16_msrvtt.py']

model = dict(
    objectives=dict(dua=dict(_delete_=True, type='SoftContrast', num_samples=7, loss_weight=1e-2))
)
