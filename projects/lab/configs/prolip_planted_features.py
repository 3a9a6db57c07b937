# ProLIP (Chun et al., ICLR 2025) on cached features and 60 % general captions: its similarity of
# Gaussians under the pairwise sigmoid, VIB, and the inclusion of videos in their texts.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/clip4clip_features.py',
    '../../../configs/_base_/planted_features.py',
]

model = dict(
    heads=dict(type='GaussianHead', own_mean=False, initial_log_std=-4.0),
    detach_heads=False,
    similarity=dict(type='GaussianSimilarity', form='product'),
    losses=dict(sigmoid=dict(type='SigmoidLoss', bias=-10.0)),
    objectives=dict(
        vib=dict(type='KLToUnit', halved=True, loss_weight=1e-4 / 128),
        inclusion=dict(type='InclusionLoss', scale=1e-2, loss_weight=1e-2),
    ),
    temperature=dict(init=0.1, learnable=True),
)
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
    dict(type='mmvtr.UncertaintyMetric'),
    dict(type='mmvtr.GeneralCaptionMetric'),
]
