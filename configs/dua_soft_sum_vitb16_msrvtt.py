# PCME's soft contrast, summed, without the KL term on MSR-VTT 1k-A (UATVR Tab. 1, + DUA*).
_base_ = ['uatvr_vitb16_msrvtt.py']
# 1k-A has no validation set: the last epoch is tested, and nothing is chosen on the test set.

model = dict(
    objectives=dict(dua=dict(type='SoftContrast', reduction='sum'), kl=dict(loss_weight=0.0))
)
