# CLIP2Video without debiasing, whose lists of texts begin with what is implied
# (docs/agreement.md): the training is as it was, and at test time the words of captions are asked.
_base_ = ['../../../configs/c2v_planted_features.py']

custom_hooks = [
    dict(
        type='mmvtr.SureFirstHook',
        captions={{_base_.train_dataloader.dataset}},
        sure=0.8,
    )
]
