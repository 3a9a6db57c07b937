# An oracle, not a method: every soft positive is known and a match like the annotated ones.
_base_ = '../../../configs/c2v_planted_features.py'

model = dict(
    supervision=dict(type='OracleSupervision', treat='positive'),
)
train_dataloader = dict(dataset=dict(oracle=True))
