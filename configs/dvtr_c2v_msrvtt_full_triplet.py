# DVTR's debiased triplet loss (Eq. 12) on MSR-VTT Full: Tab. X, whose rows are of HiT.
_base_ = ['_base_/schedule_clip_5e.py', '_base_/msrvtt_full.py', '_base_/dvtr.py']

model = dict(
    losses=dict(
        _delete_=True, triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.5)
    )
)
optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys=dict(heads=dict(lr_mult=0.2), supervision=dict(lr_mult=100.0)))
)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
