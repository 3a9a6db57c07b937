# CLIP4Clip (meanP) on your own videos (docs/own_data.md): with a checkpoint of no training, CLIP's
# own answers; trained, fine-tuned.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/own.py',
    '_base_/schedule_own.py',
    '_base_/clip4clip_vitb32.py',
]

model = dict(losses=dict(contrastive=dict(type='ContrastiveLoss')))
optim_wrapper = dict(
    paramwise_cfg=dict(
        custom_keys={
            'encoder.frames': dict(lr_mult=0.1),
            'temperature': dict(lr_mult=0.1),
        },
    ),
)
shortcuts = dict(pretrained=['model.encoder.frames.pretrained', 'model.encoder.text.pretrained'])
