# UATVR without its KL term on MSR-VTT 1k-A: row "+ DUA" of its Tab. 1 and 2.
_base_ = ['uatvr_vitb16_msrvtt.py']

model = dict(objectives=dict(kl=dict(loss_weight=0.0)))
