# PCME as a method of its own (Chun et al., CVPR 2021): attention heads, sampling, soft contrast
# with a learnt slope and bias, a weak KL; ranked by the cosine of the means.  Captions: 60 %
# general.
_base_ = [
    '_base_/schedule_planted.py',
    '_base_/clip4clip_tiny.py',
    '_base_/planted_features.py',
]

model = dict(
    encoder=dict(frames=dict(_delete_=True, type='FeatureFrames', in_dim=128)),
    similarity=dict(levels=('gaussian',)),
    losses=dict(),
    heads=dict(type='PCMEGaussianHead'),
    detach_heads=False,
    objectives=dict(
        soft=dict(type='SoftContrast', slope=30.0, bias=30.0, reduction='sum', loss_weight=1e-2),
        kl=dict(type='KLToUnit', loss_weight=1e-5),  # PCME on COCO
    ),
)
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
    dict(type='mmvtr.UncertaintyMetric'),
    dict(type='mmvtr.GeneralCaptionMetric'),
]
