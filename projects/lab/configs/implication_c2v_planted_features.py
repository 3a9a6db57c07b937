# ImplicationSupervision on CLIP2Video with cached features and 60 % general captions
# (docs/agreement.md): in the video-to-text direction negatives are spared as surely as the captions
# of the clip say that they are true; in the other one texts of many right answers count less.  At
# test time, beside the raw scores, general texts are lifted (what is true first) and lowered, and
# in one list the first is chosen by what is true and the rest by what was written for the clip.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/c2v_features.py',
]

model = dict(
    losses=dict(
        contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'), weighted='v2t')
    ),
    supervision=dict(type='ImplicationSupervision', floor=0.07, specific=0.5),
)
train_dataloader = dict(dataset=dict(records=dict(agreement=dict(type='CaptionImplication'))))
custom_hooks = [
    dict(type='mmvtr.QueryQueueHook', size=2048),
    dict(type='mmvtr.LocalScalingHook', queries='train_queue', v2t=-0.15, name='lifted'),
    dict(type='mmvtr.LocalScalingHook', queries='train_queue', v2t=0.1, name='lowered'),
    dict(
        type='mmvtr.HedgedScalingHook', queries='train_queue', first=-0.3, rest=0.4, name='hedged'
    ),
]
