# Causal intervention on frame length, members of HGR with RAN, EPIC-KITCHENS-100.
_base_ = ['../causal_hgr_epic.py']

model = dict(
    member=dict(
        supervision=dict(type='RelevanceSupervision', negatives_below=0.75),
        losses=dict(triplet=dict(average='anchors')),
    )
)
