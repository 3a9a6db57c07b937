# An oracle, not a method: every soft positive is known and not a negative.
_base_ = '../../../configs/c2v_planted_features.py'

model = dict(
    supervision=dict(type='OracleSupervision', treat='ignore'),
)
train_dataloader = dict(dataset=dict(oracle=True))
