# RANP without hard negatives on HGR, EPIC-KITCHENS-100: both triplets on all of them (the official
# configs "NoHN"), and with their threshold.
_base_ = ['hgr_epic.py', '_base_/ranp.py']

model = dict(
    supervision=dict(_base_.ran.supervision, negatives_below=0.4),
    losses=dict(
        triplet=dict(negatives='all', average='entries'),
        relevant=dict(_base_.ranp.losses.relevant, negatives='all'),
    ),
)
