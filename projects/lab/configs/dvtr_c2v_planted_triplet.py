# DVTR's debiased triplet loss (Eq. 12) on the planted corpus.
_base_ = [
    '../../../configs/_base_/planted.py',
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/c2v_tiny.py',
]

model = dict(
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='DVTRSupervision', num_samples=7, sharpness=2.0, floor=0.4, ramp=(0.33, 0.67)
    ),
    losses=dict(triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.5)),
)
train_cfg = dict(max_epochs=10, val_interval=5)  # 12 on features, which are cheap
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
