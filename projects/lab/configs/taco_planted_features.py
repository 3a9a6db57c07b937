# TACo from scratch on cached features: tokens of a text are its words, [CLS] is the start token of
# a small BERT with random weights. Our choices for a training from scratch that takes a minute:
# inner products of unnormalised vectors, with norms about the root of their width, at temperature
# 10; 2 hard pairs instead of 8; one fusion layer. Control: taco_planted_features_vectors.py
# (projects/lab/evidence/pages/planted.md).
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/taco.py',
]

annotations = dict(**_base_.corpus, split='train')
known = dict(
    video_pipeline=[
        dict(
            type='LoadExperts',
            experts=dict(frames=dict(path='data/planted_features/clips', dim=128)),
            max_tokens=16,
        )
    ],
    text_pipeline=[
        dict(type='WordTokenize', vocab_file='data/planted/vocab.txt', spans=True),
        dict(type='TokensOfInterest', counted=annotations, length=32),
    ],
)
train_dataloader = dict(dataset=known)
val_dataloader = dict(dataset=known)
test_dataloader = dict(dataset=known)

model = dict(
    encoder=dict(
        text=dict(
            _delete_=True,
            type='TransformersText',
            model=dict(
                model_type='bert',
                vocab_size=78,
                hidden_size=128,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=256,
                max_position_embeddings=32,
            ),
            dim=None,
        ),
        experts=dict(frames=128),
        dim=128,
        layers=1,
        heads=4,
        feedforward=256,
        max_seconds=16,
    ),
    similarity=dict(dim=128, layers=1, heads=4, feedforward=256, positions=32),
    temperature=dict(init=10.0),
    objectives=dict(tokens=dict(temperature=10.0)),
    negatives=2,
)
train_cfg = dict(max_epochs=10, val_interval=10)  # a test fuses all pairs
