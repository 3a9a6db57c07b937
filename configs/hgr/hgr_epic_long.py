# HGR on EPIC-KITCHENS-100, trained on the long clips alone: the other half of hgr_epic_short.py.
_base_ = ['../hgr_epic.py']

longer = dict(type='LengthSplit', parts=2, only=1)
train_dataloader = dict(dataset=dict(records=dict(environments=longer)))
