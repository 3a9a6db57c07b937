# ARL (Eq. 8-12) with its contrastive loss on NCL's normalised scores (NCL Eq. 12), tested with the
# biases of the train queue: no paper combines the two.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_untrimmed_features.py',
    '../../../configs/_base_/arl_features.py',
]

nce = dict(_delete_=True, type='NormalizedContrastiveLoss', reads=('a', 'b'), form='own_pair')
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/t2v_SumR'))
train_cfg = dict(val_interval=6)
model = dict(
    supervision=dict(type='ARLSupervision', dim=128, warmup=0.75, cap=1),
    losses=dict(nce=nce),
)
custom_hooks = [
    dict(type='mmvtr.AmbiguityHook'),
    dict(type='mmvtr.QueryQueueHook', size=2048),
    dict(type='mmvtr.SinkhornHook', queries='train_queue', temperature='model'),
    dict(type='mmvtr.MomentsHook'),
]
