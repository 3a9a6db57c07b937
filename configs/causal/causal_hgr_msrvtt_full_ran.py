# Causal intervention on frame length, members of HGR with RAN, MSR-VTT Full.
_base_ = ['../causal_hgr_msrvtt_full.py']

model = dict(
    member=dict(
        supervision=dict(type='RelevanceSupervision', negatives_below=0.75),
        losses=dict(triplet=dict(average='anchors')),
    )
)
