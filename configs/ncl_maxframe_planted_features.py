# NCL (Eq. 4 on Eq. 12) in both branches of the max-over-frames model, beside its triplet; tested
# with the biases of the train queue (Sec. 3.4), and its epoch is chosen with them.
_base_ = ['maxframe_planted_features.py']

nce = dict(_delete_=True, type='NormalizedContrastiveLoss', reads=('a', 'b'), form='own_pair')
model = dict(losses=dict(nce=nce))
custom_hooks = [
    dict(type='QueryQueueHook', size=2048),
    dict(type='SinkhornHook', queries='train_queue'),
    dict(type='MomentsHook'),
]
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/t2v_SumR'))
