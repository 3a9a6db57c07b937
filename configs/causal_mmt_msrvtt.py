# Causal intervention on frame length over MMT, MSR-VTT 1k-A (Tab. 7).
_base_ = ['_base_/mmt_msrvtt.py', '_base_/causal_msrvtt.py']

model = dict(_delete_=True, type='mmvtr.BackdoorRetriever', member=_base_.model, copies=2)
train_dataloader = _base_.by_length
