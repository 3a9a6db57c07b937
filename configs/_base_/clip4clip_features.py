# CLIP4Clip (meanP) over stored features of frames, 128 wide, and a small text tower that starts
# from nothing.
clip = dict(
    embed_dim=128,
    vision_cfg=dict(layers=2, width=64, head_width=32, patch_size=8, image_size=64),
    text_cfg=dict(context_length=32, vocab_size=78, width=128, heads=4, layers=2),
)
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='CLIP4Clip',
        frames=dict(type='FeatureFrames', in_dim=128),
        text=dict(type='OpenCLIPText', model=clip),
    ),
    similarity=dict(type='CosineSimilarity'),
    temperature=dict(type='Temperature', init=0.07),
)
