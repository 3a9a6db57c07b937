# Causal intervention on frame length, HGR on YouCook2 (Tab. 3).  Tab. 4: as causal_hgr_epic.py;
# equal parts also need `train_dataloader.dataset.environments.share=None`.
_base_ = ['hgr_youcook2.py', '_base_/causal_youcook2.py']

model = dict(_delete_=True, type='mmvtr.BackdoorRetriever', member=_base_.model, copies=2)
train_dataloader = _base_.by_length
