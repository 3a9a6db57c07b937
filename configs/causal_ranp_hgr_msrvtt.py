# Causal intervention on frame length over RANP, MSR-VTT 1k-A (Tab. 3).
_base_ = ['ranp_hgr_msrvtt.py', '_base_/causal_msrvtt.py']

model = dict(_delete_=True, type='mmvtr.BackdoorRetriever', member=_base_.model, copies=2)
train_dataloader = _base_.by_length
