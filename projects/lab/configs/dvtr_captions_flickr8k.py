# DVTR's heads and weights (docs/dvtr.md) between captions and items that are captions themselves.
_base_ = ['_base_/captions_flickr8k.py']

model = dict(
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='DVTRSupervision', num_samples=7, sharpness=2.0, floor=0.4, ramp=(0.33, 0.67)
    ),
)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
