# CLIP4Clip (meanP) over a CLIP small enough to train from scratch on two CPU cores.
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
        frames=dict(type='OpenCLIPFrames', model=clip),
        text=dict(type='OpenCLIPText', model=clip),
    ),
    similarity=dict(type='CosineSimilarity'),
    temperature=dict(type='Temperature', init=0.07),
)
