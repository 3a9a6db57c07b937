# CLIP4Clip on the planted corpus: the baseline of ncl_clip4clip_planted.py.
_base_ = ['_base_/schedule_planted.py', '_base_/planted.py', '_base_/clip4clip_features.py']

train_cfg = dict(max_epochs=10, val_interval=5)  # 12 on features, which cost little
model = dict(
    encoder=dict(
        frames=dict(
            _delete_=True,
            type='OpenCLIPFrames',
            model=_base_.clip,
        )
    ),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)
