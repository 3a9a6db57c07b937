# DVTR on CLIP2Video, trained from scratch on the planted corpus in a few minutes on two CPU cores.
_base_ = [
    '_base_/planted.py',
    '_base_/schedule_planted.py',
    '_base_/c2v_tiny.py',
]

model = dict(
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='DVTRSupervision', num_samples=7, sharpness=2.0, floor=0.4, ramp=(0.33, 0.67)
    ),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),  # Eq. 13
)
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
    dict(type='mmvtr.SoftPositiveMetric'),
]
train_cfg = dict(max_epochs=10, val_interval=5)  # 12 on features, which cost little
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
