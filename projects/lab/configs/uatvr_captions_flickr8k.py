# UATVR's probabilistic heads and losses (docs/uatvr.md), without its encoder.
_base_ = ['_base_/captions_flickr8k.py']

model = dict(
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
    heads=dict(type='GaussianHead'),
    detach_heads=False,
    objectives=dict(
        dua=dict(type='MultiInstanceContrast', num_samples=7, loss_weight=0.01),
        kl=dict(type='KLToUnit', loss_weight=0.0001),
    ),
)
