# DVTR's debiased triplet loss on MSR-VTT 1k-A: Eq. 12 with margin .5 (Tab. XII).
_base_ = [
    '_base_/default_runtime.py',
    '_base_/msrvtt_1ka.py',
    '_base_/schedule_dvtr_5e.py',
    '_base_/c2v_vitb16.py',
]

model = dict(
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='DVTRSupervision', num_samples=7, sharpness=2.0, floor=0.4, ramp=(0.1, 0.2)
    ),
    losses=dict(triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.5)),
)
