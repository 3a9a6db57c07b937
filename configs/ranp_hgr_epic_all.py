# RANP without hard negatives on HGR, EPIC-KITCHENS-100: both triplets on all of them (the official
# configs "NoHN"), and with their threshold.
_base_ = ['ranp_hgr_epic.py']

model = dict(
    supervision=dict(negatives_below=0.4),
    losses=dict(
        triplet=dict(negatives='all', average='entries'),
        relevant=dict(negatives='all'),
    ),
)
