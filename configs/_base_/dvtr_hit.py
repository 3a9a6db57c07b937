# DVTR on HiT: heads (Eq. 3-6) that read the lower layer's outputs as local and the mean of the
# upper layer's as global features (Sec. IV-B), weights of the rows of the banks (Eq. 7-11),
# debiased loss (Eq. 13).  The heads learn at 2e-5 like everything; slope and bias of the match
# probability are two numbers that have far to go: 1e-2, as over CLIP2Video.
_base_ = ['hit.py']

model = dict(
    heads=dict(type='HierarchicalGaussianHead'),
    head_reads='semantic',
    supervision=dict(
        type='DVTRSupervision',
        num_samples=7,  # K, Sec. V-A.2
        # Ours, as eta is a ratio here; one value for all sets and baselines (docs/dvtr.md).
        reference='mean',
        sharpness=2.0,
        floor=0.0,  # Eq. 13 has none
        ramp=(0.33, 0.67),  # the heads learn first
    ),
)
optim_wrapper = dict(paramwise_cfg=dict(custom_keys={'supervision': dict(lr_mult=500.0)}))
