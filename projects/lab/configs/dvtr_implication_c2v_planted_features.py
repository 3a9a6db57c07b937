# DVTR's uncertainty (Eq. 13, without its own floor) combined with what captions imply
# (docs/agreement.md), in the video-to-text direction: no paper combines the two. A negative is
# spared if either of them considers it a match (combine='min'; 'max': if both do).
_base_ = '../../../configs/c2v_planted_features.py'

model = dict(
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='CombinedSupervision',
        combine='min',
        parts=dict(
            dvtr=dict(
                type='DVTRSupervision', num_samples=7, sharpness=2.0, floor=0.0, ramp=(0.33, 0.67)
            ),
            words=dict(type='ImplicationSupervision', floor=0.07, specific=0.5),
        ),
    ),
    losses=dict(
        contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'), weighted='v2t')
    ),
)
train_dataloader = dict(dataset=dict(records=dict(agreement=dict(type='CaptionImplication'))))
test_evaluator = [*_base_.test_evaluator, dict(type='mmvtr.SoftPositiveMetric')]
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
