# PCME++ (Chun, ICLR 2024) on MSR-VTT 1k-A, over the towers and schedule of clip4clip_msrvtt.py: the
# closed-form distance of Gaussians, a pairwise sigmoid with pseudo-positives, mixed videos with
# soft labels, and VIB.  Weights of the terms are those of its code; VIB's is divided by D, as KL is
# summed here.
_base_ = [
    '_base_/msrvtt_1ka.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip4clip_vitb32.py',
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
    objectives=dict(vib=dict(type='KLToUnit', loss_weight=1e-4 / 512)),
    temperature=dict(init=0.2),
)
test_evaluator = [dict(type='mmvtr.RetrievalMetric'), dict(type='mmvtr.UncertaintyMetric')]
custom_hooks = [dict(type='mmvtr.SigmaFileHook')]
