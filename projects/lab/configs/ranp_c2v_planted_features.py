# RANP: RAN and a second triplet loss that pulls the hardest relevant pair, with one threshold for
# both, as in hgr_msrvtt_ranp.py.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/c2v_features.py',
]

threshold = 0.2
relevant = dict(
    type='RelevantRankingLoss',
    reads=('global', 'aligned'),
    threshold=0.2,
    margin=0.2,
    loss_weight=2.0,
)
model = dict(
    losses=dict(
        triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.2), relevant=relevant
    ),
    supervision=dict(type='RelevanceSupervision', negatives_below=0.2),
)
