# TACo (Yang et al., ICCV 2021), which has no public code: the model alone.  Its own: BERT-base and
# its [CLS], a linear layer and two of self-attention for the video, two more for the fusion of
# both; vectors of any length, temperature 1; L1 + .5 L2 + L3, texts against videos alone; K' = 8
# hard videos of a text and texts of a video.  Ours: the uncased BERT, width 768 (BERT's own, so no
# projection), 12 heads, 3,072 inside, dropout .1; rows of several experts side by side; losses are
# means over texts, where the paper sums (a factor of 128, which Adam does not see); a video's hard
# texts have it as a further negative (CascadeRetriever).
model = dict(
    type='mmvtr.CascadeRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='TACoEncoder',
        text=dict(type='TransformersText', model='bert-base-uncased', dim=None),
        dim=768,
        layers=2,
        heads=12,
        feedforward=3072,
        dropout=0.1,
    ),
    similarity=dict(type='CascadeSimilarity', dim=768, layers=2, heads=12, dropout=0.1),
    temperature=dict(type='Temperature', init=1.0),
    losses=dict(
        vectors=dict(type='ContrastiveLoss', reads=('global',), direction='t2v'),
        fusion=dict(type='ContrastiveLoss', reads=('fusion',), direction='t2v'),
    ),
    objectives=dict(tokens=dict(type='TokenContrast', temperature=1.0, loss_weight=0.5)),
    negatives=8,
)
