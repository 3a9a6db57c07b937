# RANP: RAN and a second triplet that pulls the hardest relevant pair.  One threshold for both, as
# ranp_hgr_msrvtt.py.
_base_ = ['ran_c2v_planted_features.py']

threshold = 0.2
relevant = dict(
    type='RelevantRankingLoss',
    reads=('global', 'aligned'),
    threshold=threshold,
    margin=0.2,
    loss_weight=2.0,
)
model = dict(supervision=dict(negatives_below=threshold), losses=dict(relevant=relevant))
