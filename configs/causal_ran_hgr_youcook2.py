# Causal intervention on frame length over RAN, YouCook2 (Tab. 3).
_base_ = ['ran_hgr_youcook2.py', '_base_/causal_youcook2.py']

model = dict(_delete_=True, type='mmvtr.BackdoorRetriever', member=_base_.model, copies=2)
train_dataloader = _base_.by_length
