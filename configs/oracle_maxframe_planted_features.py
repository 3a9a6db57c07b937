# An oracle, no method: in clips of three moments every soft positive is known, and is no negative.
_base_ = ['maxframe_planted_features.py']

model = dict(supervision=dict(_delete_=True, type='OracleSupervision', treat='ignore'))
train_dataloader = dict(dataset=dict(oracle=True))
