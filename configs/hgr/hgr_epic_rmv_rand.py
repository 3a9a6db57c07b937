# HGR on EPIC-KITCHENS-100 with RmvRand: as many clips leave as by RmvAll, at random.
_base_ = ['hgr_epic_rmv_all.py']

random = dict(_delete_=True, type='RemoveRandom', like=_base_.removal)
train_dataloader = dict(dataset=dict(records=dict(environments=random)))
