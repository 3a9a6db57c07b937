# A pretrained dual encoder as it is: cosine of a text with the mean of its unit frames (meanP of
# CLIP4Clip, without training).  Size, mean and std of the frames and the tokens are the model's.
model = dict(
    type='VideoTextRetriever',
    data_preprocessor=dict(type='VideoTextDataPreprocessor', mean=None, std=None),
    encoder=dict(
        type='CLIP4Clip', frames=dict(type='OpenCLIPFrames'), text=dict(type='OpenCLIPText')
    ),
    similarity=dict(type='CosineSimilarity'),
    temperature=dict(type='Temperature', init=0.01),  # what a transform of the scores takes
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)
# --cfg-options weights=/path/to/checkpoint transform=SinkhornHook queries=test
shortcuts = dict(
    weights=['model.encoder.frames.pretrained', 'model.encoder.text.pretrained'],
    transform=['default_hooks.transform.type'],
    queries=['default_hooks.transform.queries'],
)
