# ProLIP (Chun et al., ICLR 2025) on MSR-VTT 1k-A, over the towers and schedule of
# clip4clip_msrvtt.py: its similarity of Gaussians under SigLIP's loss, VIB, and the inclusion of
# videos in their texts.  sigma is of a head instead of a token of its own.
_base_ = [
    '_base_/msrvtt_1ka.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip4clip_vitb32.py',
]

model = dict(
    heads=dict(type='GaussianHead', own_mean=False, initial_log_std=-4.0),
    detach_heads=False,
    similarity=dict(type='GaussianSimilarity', form='product'),
    losses=dict(sigmoid=dict(type='SigmoidLoss', bias=-10.0)),
    objectives=dict(
        vib=dict(type='KLToUnit', halved=True, loss_weight=1e-4 / 512),
        # Its code: form='official', scale=1000, eps=-20, loss_weight=1e-7.
        inclusion=dict(type='InclusionLoss', scale=1e-2, loss_weight=1e-2),
    ),
    temperature=dict(init=0.1),
)
test_evaluator = [dict(type='mmvtr.RetrievalMetric'), dict(type='mmvtr.UncertaintyMetric')]
custom_hooks = [dict(type='mmvtr.SigmaFileHook')]
