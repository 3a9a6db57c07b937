# CLIP2Video with the triplet loss (DVTR Eq. 1) on the planted corpus.
_base_ = [
    '../../../configs/_base_/planted.py',
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/c2v_tiny.py',
]

model = dict(losses=dict(triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.5)))
train_cfg = dict(max_epochs=10, val_interval=5)  # 12 on features, which are cheap
