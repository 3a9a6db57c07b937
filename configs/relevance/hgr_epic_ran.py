# RAN (Falcon et al., ICIAP 2022) on HGR, EPIC-KITCHENS-100: what is relevant but not annotated is
# no negative.  Threshold .75 as the official configs and the frame-length paper (Sec. 4) have it.
_base_ = ['../hgr_epic.py']

model = dict(
    supervision=dict(type='RelevanceSupervision', negatives_below=0.75),
    # Over all anchors, as the official code: one whose batch is all relevant counts as 0.
    losses=dict(triplet=dict(average='anchors')),
)
