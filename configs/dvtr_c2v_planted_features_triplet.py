# DVTR's debiased triplet loss (Eq. 12) on cached features, as its Eq. 12 has it: no floor.  Margin
# as in its control, c2v_planted_features_triplet.py.
_base_ = ['dvtr_c2v_planted_features.py']

model = dict(
    supervision=dict(floor=0.0),
    losses=dict(
        _delete_=True, triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.2)
    ),
)
