# Causal intervention on frame length, members of HGR with RAN, MSR-VTT 1k-A.
_base_ = ['../causal_hgr_msrvtt.py']

model = dict(
    member=dict(
        supervision=dict(type='RelevanceSupervision', negatives_below=0.75),
        losses=dict(triplet=dict(average='anchors')),
    )
)
