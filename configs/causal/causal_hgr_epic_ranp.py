# Causal intervention on frame length, members of HGR with RANP, EPIC-KITCHENS-100.
_base_ = ['../causal_hgr_epic.py']

relevant = dict(type='RelevantRankingLoss', threshold=None, margin=0.2, loss_weight=2.0)
model = dict(
    member=dict(
        supervision=dict(type='RelevanceSupervision', negatives_below=0.2),
        losses=dict(triplet=dict(average='anchors'), relevant=relevant),
    )
)
