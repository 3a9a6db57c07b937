# DVTR's uncertainty (Eq. 13, no floor of its own) and what captions imply (docs/agreement.md),
# together in the video-to-text direction: no paper has both.  A negative is spared where either of
# them calls it right (spared_by='any'; 'all': where both do).
_base_ = ['dvtr_c2v_planted_features.py']

model = dict(
    supervision=dict(
        _delete_=True,
        type='CombinedSupervision',
        spared_by='any',
        parts=dict(
            dvtr=dict(
                type='DVTRSupervision', num_samples=7, sharpness=2.0, floor=0.0, ramp=(0.33, 0.67)
            ),
            words=dict(type='ImplicationSupervision', floor=0.07, specific=0.5),
        ),
    ),
    losses=dict(contrastive=dict(weighted='v2t')),
)
train_dataloader = dict(dataset=dict(agreement=dict(type='CaptionImplication')))
