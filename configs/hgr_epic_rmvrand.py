# RmvRand: as many clips leave as in hgr_epic_rmvall.py, at random.
_base_ = ['hgr_epic_rmvall.py']

train_dataloader = dict(
    dataset=dict(environments=dict(_delete_=True, type='RemoveRandom', like={{_base_.removal}}))
)
