# Causal intervention on frame length, HGR on MSR-VTT Full (Tab. 9).
_base_ = ['hgr_msrvtt_full.py', '_base_/causal_msrvtt.py']

model = dict(_delete_=True, type='mmvtr.BackdoorRetriever', member=_base_.model, copies=2)
train_dataloader = _base_.by_length
