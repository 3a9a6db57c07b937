# RAN (Falcon et al., ICIAP 2022) on CLIP2Video: pairs that are relevant by the verbs and nouns of
# captions are not negatives of the triplet loss.  Threshold: hgr_msrvtt_ran.py.  All negatives are
# used: with only the hardest, as in HGR, this small model learns next to nothing (rsum 57 after 12
# epochs).
_base_ = '../../../configs/c2v_planted_features_triplet.py'

model = dict(
    supervision=dict(type='RelevanceSupervision', negatives_below=0.75),
)
