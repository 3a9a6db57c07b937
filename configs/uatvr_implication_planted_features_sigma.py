# The same with UATVR's sigma as a floor: the surer the head is of a text, the less it is spared.
_base_ = ['uatvr_implication_planted_features.py']

model = dict(
    supervision=dict(
        _delete_=True,
        type='CombinedSupervision',
        spared_by='all',
        parts=dict(
            words=dict(type='ImplicationSupervision', floor=0.07, specific=0.5),
            sigma=dict(type='SigmaSupervision', half=0.5),
        ),
    )
)
