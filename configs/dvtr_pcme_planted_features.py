# DVTR with PCME's match probability as its uncertainty (DVTR Tab. IX, DVTR_pcme).
_base_ = ['dvtr_c2v_planted_features.py']

model = dict(
    heads=dict(_delete_=True, type='PCMEGaussianHead'),
    supervision=dict(
        _delete_=True,
        type='PCMESupervision',
        num_samples=7,
        sharpness=2.0,
        floor=0.4,
        ramp=(0.33, 0.67),
    ),
)
