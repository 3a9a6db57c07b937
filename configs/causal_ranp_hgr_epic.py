# Causal intervention on frame length over RANP, EPIC-KITCHENS-100 (Tab. 2).
_base_ = ['ranp_hgr_epic.py', '_base_/causal.py']

model = dict(_delete_=True, type='mmvtr.BackdoorRetriever', member=_base_.model, copies=2)
train_dataloader = _base_.by_length
