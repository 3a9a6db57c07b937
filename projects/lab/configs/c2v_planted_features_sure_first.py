# CLIP2Video without debiasing, whose ranked texts begin with those that captions imply
# (docs/agreement.md): the training is unchanged, and at test time captions' words are compared.
_base_ = ['../../../configs/c2v_planted_features.py']

custom_hooks = [
    dict(
        type='mmvtr.SureFirstHook',
        captions={{_base_.train_dataloader.dataset}},
        sure=0.8,
    )
]
