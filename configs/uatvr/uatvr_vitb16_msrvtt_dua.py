# UATVR without the KL term, on MSR-VTT 1k-A: row "+ DUA" of Tab. 1.
_base_ = ['../uatvr_vitb16_msrvtt.py']

model = dict(objectives=dict(kl=dict(loss_weight=0.0)))
