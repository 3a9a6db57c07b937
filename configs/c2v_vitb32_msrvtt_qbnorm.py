# QB-Norm over CLIP2Video on MSR-VTT 1k-A: row "QB-Norm + C2V" of DVTR Tab. III, "QB-Norm" of UATVR
# Tab. 6.  Its numbers stand beside the raw ones, as qb_norm/retrieval/...
_base_ = ['c2v_vitb32_msrvtt.py']

custom_hooks = [
    dict(type='mmvtr.QueryQueueHook', size=16384),
    # beta of QB-Norm's code
    dict(type='mmvtr.QBNormHook', queries='train_queue', temperature=1 / 20),
]
default_hooks = dict(checkpoint=dict(save_best='qb_norm/retrieval/rsum'))
