# HGR on EPIC-KITCHENS-100, trained on the short clips alone: a control of causal_hgr_epic.py, and
# one half of the paper's letter, whose halves are trained apart and summed by `tools/test.py
# configs/hgr_epic.py SHORT.pth LONG.pth`.
_base_ = ['../hgr_epic.py']

shorter = dict(type='LengthSplit', parts=2, only=0)
train_dataloader = dict(dataset=dict(records=dict(environments=shorter)))
