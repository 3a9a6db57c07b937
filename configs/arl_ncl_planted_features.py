# ARL (Eq. 8-12) with its contrast on NCL's normalised scores (NCL Eq. 12), tested with the biases
# of the train queue: no paper has both.
_base_ = ['arl_planted_features.py']

nce = dict(_delete_=True, type='NormalizedContrastiveLoss', reads=('a', 'b'), form='own_pair')
model = dict(losses=dict(nce=nce))
custom_hooks = [
    dict(type='mmvtr.AmbiguityHook'),
    dict(type='mmvtr.QueryQueueHook', size=2048),
    dict(type='mmvtr.SinkhornHook', queries='train_queue'),
    dict(type='mmvtr.MomentsHook'),
]
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/t2v_SumR'))
