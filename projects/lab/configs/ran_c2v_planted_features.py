# RAN (Falcon et al., ICIAP 2022) on CLIP2Video: what is relevant by the verbs and nouns that
# captions name is no negative of the triplet.  Threshold: hgr_msrvtt+ran.py.  All negatives: on the
# hardest ones, as HGR's, this small model learns next to nothing (rsum 57 after 12 epochs).
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/c2v_features.py',
]

model = dict(
    losses=dict(triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.2)),
    supervision=dict(type='RelevanceSupervision', negatives_below=0.75),
)
