# PCME++ (Chun, ICLR 2024) on cached features and 60 % general captions: closed-form distance,
# pairwise sigmoid with pseudo-positives, mixed videos and VIB, instead of the samples and soft
# contrastive loss of pcme_planted_features.py.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/clip4clip_features.py',
    '../../../configs/_base_/planted_features.py',
]

model = dict(
    data_preprocessor=dict(type='mmvtr.MixupDataPreprocessor'),
    heads=dict(type='GaussianHead', own_mean=False),
    detach_heads=False,
    similarity=dict(type='GaussianSimilarity', form='distance'),
    supervision=dict(type='MixupSupervision', smoothing=1e-4),
    losses=dict(
        sigmoid=dict(
            type='SigmoidLoss', bias=5.0, reduction='mean', pseudo_weight=0.1, loss_weight=2.0
        )
    ),
    objectives=dict(vib=dict(type='KLToUnit', loss_weight=1e-4 / 128)),
    temperature=dict(init=0.2, learnable=True),
)
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
    dict(type='mmvtr.UncertaintyMetric'),
    dict(type='mmvtr.GeneralCaptionMetric'),
]
