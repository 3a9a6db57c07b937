# An oracle, no method: every soft positive is known, and is no negative.
_base_ = ['c2v_planted_features.py']

model = dict(supervision=dict(type='OracleSupervision', treat='ignore'))
train_dataloader = dict(dataset=dict(oracle=True))
