# DVTR with PCME's match probability as its uncertainty (DVTR Tab. IX, DVTR_pcme).
_base_ = '../../../configs/c2v_planted_features.py'

model = dict(
    heads=dict(type='PCMEGaussianHead'),
    supervision=dict(
        type='PCMESupervision', num_samples=7, sharpness=2.0, floor=0.4, ramp=(0.33, 0.67)
    ),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),  # Eq. 13
)
test_evaluator = [*_base_.test_evaluator, dict(type='mmvtr.SoftPositiveMetric')]
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
