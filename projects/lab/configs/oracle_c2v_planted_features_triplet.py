# An oracle, not a method: every soft positive is known and not a negative of the triplet loss.
_base_ = '../../../configs/c2v_planted_features_triplet.py'

model = dict(
    supervision=dict(type='OracleSupervision', treat='ignore'),
)
train_dataloader = dict(dataset=dict(oracle=True))
