# DVTR on CLIP2Video: heads (Eq. 3-6), weights of negatives (Eq. 7-11), debiased loss (Eq. 13).
_base_ = ['c2v_vitb16.py']

model = dict(
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='DVTRSupervision',
        num_samples=7,  # K, Sec. V-A.2
        # Ours, as eta is a ratio here; one value for all sets and baselines (docs/dvtr.md).
        reference='mean',
        sharpness=2.0,
        floor=0.0,  # Eq. 13 has none
        ramp=(0.33, 0.67),  # epochs 1.7 to 3.3: the heads learn first
    ),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
)
