# CLIP2Video with the triplet loss (DVTR Eq. 1), all negatives, on cached features.
# Margin .2 (rsum 100.5 after 6 epochs; .5: 90.0).
_base_ = ['_base_/schedule_planted.py', '_base_/planted_features.py', '_base_/c2v_features.py']

model = dict(losses=dict(triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.2)))
