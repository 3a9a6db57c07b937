# CLIP2Video over its own backbone on MSR-VTT 1k-A with QB-Norm, whose numbers stand beside the raw
# ones, as qb_norm/retrieval/...
_base_ = ['c2v_msrvtt_vitb32.py']

custom_hooks = [
    dict(type='mmvtr.QueryQueueHook', size=16384),
    # beta of QB-Norm's code
    dict(type='mmvtr.QBNormHook', queries='train_queue', temperature=1 / 20),
]
default_hooks = dict(checkpoint=dict(save_best='qb_norm/retrieval/rsum'))
