# ImplicationSupervision on CLIP2Video with cached features and 60 % general captions
# (docs/agreement.md): in the video-to-text direction a negative is spared by the probability that
# the clip's captions imply it; in the other direction texts with many matches count less. Tests
# report raw scores, scores with general texts raised (true texts first) and lowered, and a list
# whose first text is chosen by truth and the rest by what was written for the clip.
_base_ = '../../../configs/c2v_planted_features.py'

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
