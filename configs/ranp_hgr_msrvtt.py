# RANP on HGR, MSR-VTT 1k-A: RAN and a second triplet that pulls the hardest relevant pair.
# One threshold for both; .20 as the frame-length paper (Sec. 4), .1 or .4 in the official ones.
_base_ = ['ran_hgr_msrvtt.py']

threshold = 0.2
model = dict(
    supervision=dict(negatives_below=threshold),
    losses=dict(
        relevant=dict(type='RelevantRankingLoss', threshold=threshold, margin=0.2, loss_weight=2.0),
    ),
)
