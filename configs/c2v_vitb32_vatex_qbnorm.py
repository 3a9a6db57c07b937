# QB-Norm over CLIP2Video on VATEX: row "QB-Norm + C2V" of DVTR Tab. V and UATVR Tab. 7, as on
# MSR-VTT 1k-A (c2v_vitb32_msrvtt_qbnorm.py).
_base_ = ['c2v_vatex.py']

model = dict(
    encoder=dict(
        frames=dict(model='ViT-B-32-quickgelu', grad_checkpointing=False),
        text=dict(model='ViT-B-32-quickgelu'),
    )
)
custom_hooks = [
    dict(type='mmvtr.QueryQueueHook', size=16384),
    dict(type='mmvtr.QBNormHook', queries='train_queue', temperature=1 / 20),
]
default_hooks = dict(checkpoint=dict(save_best='qb_norm/retrieval/rsum'))
