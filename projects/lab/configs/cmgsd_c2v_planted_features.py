# Complete CMGSD (He et al., SIGIR 2021), with the choices of the only code found: margins from
# learnt projections, gradients through them, beta 1, lambda from a fifth to half of the training.
# The frozen sentence encoder of the static part is replaced by a caption's words, weighted by
# rarity (our choice: planted captions have a vocabulary of 78 words). Control:
# c2v_planted_features_triplet.py.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/c2v_features.py',
]

model = dict(
    losses=dict(triplet=dict(type='SeveralHingesLoss', reads=('global', 'aligned'))),
    supervision=dict(
        type='CMGSDSupervision',
        sentences='words',
        project=dict(in_dim=128, dim=256, dropout=0.1),
        beta=1.0,
        ramp=(0.2, 0.5),
    ),
)
train_dataloader = dict(
    dataset=dict(
        text_pipeline=[
            dict(type='WordTokenize', vocab_file='data/planted/vocab.txt'),
            dict(type='WordCounts', name='words'),
        ]
    )
)
# The base's learning rate for supervisions is meant for DVTR's two scalars.
optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys={'supervision.project': dict(lr_mult=1.0, decay_mult=1.0)})
)
