# UATVR without its KL term on MSR-VTT 1k-A: row "+ DUA" of its Tab. 1 and 2.
_base_ = ['uatvr_vitb16_msrvtt.py']
# 1k-A has no validation set: the last epoch is tested, and nothing is chosen on the test set.

model = dict(objectives=dict(kl=dict(loss_weight=0.0)))
