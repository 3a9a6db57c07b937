# TACo's encoders without tokens of interest, cascade and fusion: cosines of their vectors, at
# temperature .07.  The control of taco_planted_features.py.
_base_ = ['taco_planted_features.py']

model = dict(
    _delete_=True,
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=_base_.model.data_preprocessor,
    encoder=_base_.model.encoder,
    similarity=dict(type='CosineSimilarity'),
    temperature=dict(type='Temperature', init=0.07),
    losses=dict(vectors=dict(type='ContrastiveLoss', direction='t2v')),
)
