# DVTR + CLIP2Video on VATEX (DVTR Tab. V), HGR's split.  The CLIP2Video of that table (57.3) was
# tested on another list: for that set test_dataloader.dataset.split=test_1k5, and choose no
# checkpoint on val, half of which is in it.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/vatex.py',
    '_base_/schedule_dvtr_5e.py',
    '_base_/c2v_vitb16.py',
]

model = dict(
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='DVTRSupervision', num_samples=7, sharpness=2.0, floor=0.4, ramp=(0.1, 0.2)
    ),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),  # Eq. 13
)
