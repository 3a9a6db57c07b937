# RmvRand: as many clips leave as in RmvAll, at random.
_base_ = ['c2v_planted_confound_features_rmvall.py']

train_dataloader = dict(
    dataset=dict(environments=dict(_delete_=True, type='RemoveRandom', like={{_base_.removal}}))
)
