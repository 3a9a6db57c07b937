# UATVR whole on planted clips of three moments, from cached features: extra tokens, learnt weights
# of tokens, and PCME's heads, as the networks of its tables have them (docs/uatvr.md).
_base_ = ['ti_planted_untrimmed_features.py']

model = dict(
    encoder=dict(extra_frames=3, extra_words=2),
    similarity=dict(weights='uatvr', dim=128),
    heads=dict(_delete_=True, type='PCMEGaussianHead'),
    objectives=dict(
        dua=dict(type='MultiInstanceContrast', num_samples=7, loss_weight=1e-2),
        kl=dict(type='KLToUnit', loss_weight=1e-4),
    ),
)
