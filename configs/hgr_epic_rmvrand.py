# RmvRand: as many clips leave as in hgr_epic_rmvall.py, at random.
_base_ = ['hgr_epic.py']

removal = dict(
    type='RemoveByLength',
    alpha=60,
    delta=10.0,
    test=dict(type='mmvtr.EPICKitchensDataset', split='test'),
)
train_dataloader = dict(
    dataset=dict(records=dict(environments=dict(type='RemoveRandom', like=removal)))
)
