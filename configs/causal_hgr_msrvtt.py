# Causal intervention on frame length, HGR on MSR-VTT 1k-A (Tab. 3).  Tab. 4: as
# causal_hgr_youcook2.py.
_base_ = ['hgr_msrvtt.py', '_base_/causal_msrvtt.py']

model = dict(_delete_=True, type='mmvtr.BackdoorRetriever', member=_base_.model, copies=2)
train_dataloader = _base_.by_length
