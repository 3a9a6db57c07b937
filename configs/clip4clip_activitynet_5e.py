# CLIP4Clip (meanP) on ActivityNet paragraphs with its own 5 epochs (DVTR Tab. VI), tested without
# NCL's queue.  clip4clip_activitynet.py has the 10 epochs that NCL found on val (App. B).
_base_ = ['_base_/schedule_clip_5e.py', '_base_/activitynet.py', '_base_/clip4clip_vitb32.py']

model = dict(
    # 128 x 64 frames keep 311 GB of activations (--amp: 156), with this 24 (12).  16 x 64, the
    # share of one of 8 processes, keep 39 (19) without.
    encoder=dict(frames=dict(grad_checkpointing=True)),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)
custom_hooks = []
