# Causal intervention on frame length over EgoVLP's loss, EPIC-KITCHENS-100 (Tab. 7).
_base_ = ['egovlp_mm_clip_epic.py', '_base_/causal.py']

model = dict(_delete_=True, type='mmvtr.BackdoorRetriever', member=_base_.model, copies=2)
train_dataloader = _base_.by_length
