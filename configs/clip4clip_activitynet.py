# CLIP4Clip (meanP) on ActivityNet paragraphs: the baseline of ncl_clip4clip_activitynet.py.
_base_ = [
    '_base_/activitynet.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip4clip_vitb32.py',
    '_base_/train_queue.py',
]

model = dict(
    # 128 x 64 frames keep 311 GB of activations (--amp: 156), with this 24 (12).  16 x 64, the
    # share of one of 8 processes, keep 39 (19) without.
    encoder=dict(frames=dict(grad_checkpointing=True)),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)

train_cfg = dict(max_epochs=10)  # warm-up over the first 10 % (NCL App. B)
