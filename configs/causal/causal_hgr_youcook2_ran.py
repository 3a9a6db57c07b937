# Causal intervention on frame length, members of HGR with RAN, YouCook2.
_base_ = ['../causal_hgr_youcook2.py']

model = dict(
    member=dict(
        supervision=dict(type='RelevanceSupervision', negatives_below=0.75),
        losses=dict(triplet=dict(average='anchors')),
    )
)
