# GuideSupervision on CLIP2Video with cached features and 60 % general captions (docs/teachers.md):
# nearly equal captions are not negatives of each other's clips, as in GISTEmbed's mask. The guide
# is a caption's words, weighted by rarity; a sentence encoder's vectors can replace it with
# LoadVectors(side='text', stores=dict(words=...)).
_base_ = '../../../configs/c2v_planted_features.py'

model = dict(
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
