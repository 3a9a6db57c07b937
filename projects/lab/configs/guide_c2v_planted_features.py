# GuideSupervision on CLIP2Video with cached features and 60 % general captions (docs/teachers.md):
# captions that are nearly alike are no negatives of each other's clips, as GISTEmbed's mask has it.
# The guide is the words of a caption, weighed by how rare they are; vectors of a sentence encoder
# stand in its place by LoadVectors(side='text', stores=dict(words=...)).
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/c2v_features.py',
]

model = dict(
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
    supervision=dict(type='GuideSupervision', name='words', by='texts', margin=0.3),
)
train_dataloader = dict(
    dataset=dict(
        text_pipeline=[
            dict(type='WordTokenize', vocab_file='data/planted/vocab.txt'),
            dict(type='WordCounts', name='words'),
        ]
    )
)
