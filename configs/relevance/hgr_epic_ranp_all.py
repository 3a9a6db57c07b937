# RANP on HGR, EPIC-KITCHENS-100, without hard negatives: both triplets on all of them (the official
# configs "NoHN"), and with their threshold.
_base_ = ['hgr_epic_ranp.py']

model = dict(
    supervision=dict(negatives_below=0.4),
    losses=dict(triplet=dict(negatives='all', average='entries'), relevant=dict(negatives='all')),
)
