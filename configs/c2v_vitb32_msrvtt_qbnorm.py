# QB-Norm over CLIP2Video on MSR-VTT 1k-A: row "QB-Norm + C2V" of DVTR Tab. III, "QB-Norm" of UATVR
# Tab. 6.  Its numbers stand beside the raw ones, as qb_norm/retrieval/...
_base_ = ['_base_/schedule_clip_5e.py', '_base_/msrvtt_1ka.py', '_base_/c2v_vitb16.py']

model = dict(
    encoder=dict(
        # 128 x 12 frames keep 58 GB of activations (--amp: 29).
        frames=dict(model='ViT-B-32-quickgelu', grad_checkpointing=False),
        text=dict(model='ViT-B-32-quickgelu'),
    ),
    temperature=dict(init=0.01, learnable=True),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
)
custom_hooks = [
    dict(type='mmvtr.QueryQueueHook', size=16384),
    # beta of QB-Norm's code
    dict(type='mmvtr.QBNormHook', queries='train_queue', temperature=1 / 20),
]
default_hooks = dict(checkpoint=dict(save_best='qb_norm/retrieval/rsum'))
