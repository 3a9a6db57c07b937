# An oracle, not a method: every soft positive is known and not a negative of the triplet loss.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/c2v_features.py',
]

model = dict(
    losses=dict(triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.2)),
    supervision=dict(type='OracleSupervision', treat='ignore'),
)
train_dataloader = dict(dataset=dict(oracle=True))
