# CLIP2Video over CLIP ViT-B/32 on MSR-VTT 1k-A: its published row (45.6 R@1; DVTR Tab. III, UATVR
# Tab. 6).  DVTR states ViT-B/16 for its own (Sec. V-A.2).
_base_ = [
    '_base_/schedule_clip_5e.py',
    '_base_/msrvtt_1ka.py',
    '_base_/c2v_vitb16.py',
    '_base_/train_queue.py',
]

model = dict(
    encoder=dict(
        # 128 x 12 frames keep 58 GB of activations (--amp: 29).
        frames=dict(model='ViT-B-32-quickgelu', grad_checkpointing=False),
        text=dict(model='ViT-B-32-quickgelu'),
    ),
    temperature=dict(init=0.01, learnable=True),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
)
