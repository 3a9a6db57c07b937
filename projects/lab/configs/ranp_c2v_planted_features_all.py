# RANP without hard negatives (the official configs "NoHN") and with the official weights: both
# triplet losses on all negatives, weighted equally. The threshold is a quantile, chosen for the
# share of pairs that .75 selects here: .20 selects a third of them, as captions name few verbs and
# nouns.
_base_ = '../../../configs/c2v_planted_features_triplet.py'

reads = ('global', 'aligned')
model = dict(
    losses=dict(
        triplet=dict(type='RankingLoss', reads=reads, margin=0.2, average='entries'),
        relevant=dict(
            type='RelevantRankingLoss', reads=reads, threshold=None, margin=0.2, negatives='all'
        ),
    ),
    supervision=dict(type='RelevanceSupervision', negatives_below=None, quantile=0.988),
)
