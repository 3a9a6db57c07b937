# UATVR's probabilistic heads and losses (docs/uatvr.md), without its encoder.
_base_ = ['infonce_captions_flickr8k.py']

model = dict(
    heads=dict(type='GaussianHead'),
    detach_heads=False,
    objectives=dict(
        dua=dict(type='MultiInstanceContrast', num_samples=7, loss_weight=1e-2),
        kl=dict(type='KLToUnit', loss_weight=1e-4),
    ),
)
