# CLIP4Clip's text tower on stored frame features of your own videos, of the same CLIP: without a
# frame tower an epoch takes seconds (docs/own_data.md).
_base_ = [
    '_base_/default_runtime.py',
    '_base_/own_features.py',
    '_base_/schedule_own.py',
    '_base_/clip4clip_vitb32.py',
]

model = dict(
    encoder=dict(frames=dict(_delete_=True, type='FeatureFrames', in_dim=512)),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)
optim_wrapper = dict(paramwise_cfg=dict(custom_keys={'temperature': dict(lr_mult=0.1)}))
shortcuts = dict(pretrained=['model.encoder.text.pretrained'])
