# PCME as a method by itself (Chun et al., CVPR 2021): attention heads, sampling, soft contrastive
# loss with learnt slope and bias, a weak KL; ranking by the cosine of the means. Captions: 60 %
# general.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/clip4clip_features.py',
]

model = dict(
    similarity=dict(levels=('gaussian',)),
    losses=dict(),
    heads=dict(type='PCMEGaussianHead'),
    detach_heads=False,
    objectives=dict(
        soft=dict(type='SoftContrast', slope=30.0, bias=30.0, reduction='sum', loss_weight=0.01),
        kl=dict(type='KLToUnit', loss_weight=1e-5),  # PCME on COCO
    ),
)
test_evaluator = [
    *_base_.test_evaluator,
    dict(type='mmvtr.UncertaintyMetric'),
    dict(type='mmvtr.GeneralCaptionMetric'),
]
