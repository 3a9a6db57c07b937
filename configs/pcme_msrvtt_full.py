# PCME (Chun et al., CVPR 2021) on MSR-VTT Full, the first row of DVTR's Tab. IX, which says neither
# features nor schedule.  Ours: those of HiT (Tab. III) and its encoder; PCME's own are its heads,
# the sampled soft contrast with a learnt slope and bias, and the weak KL, here as on COCO.
_base_ = ['_base_/default_runtime.py', '_base_/msrvtt_full_experts.py', '_base_/hit.py']

model = dict(
    _delete_=True,
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=_base_.model.data_preprocessor,
    encoder={**_base_.model.encoder, **_base_.rows},
    heads=dict(type='PCMEGaussianHead'),
    head_reads='semantic',
    detach_heads=False,
    similarity=dict(type='CosineSimilarity', levels=('gaussian',)),
    temperature=dict(type='Temperature', init=0.07),
    losses=dict(),
    objectives=dict(
        soft=dict(type='SoftContrast', slope=30.0, bias=30.0, reduction='sum', loss_weight=1e-2),
        kl=dict(type='KLToUnit', loss_weight=1e-5),
    ),
)
custom_hooks = []
# As DVTR's: two numbers that have far to go.
optim_wrapper = dict(paramwise_cfg=dict(custom_keys={'objectives.soft': dict(lr_mult=500.0)}))
