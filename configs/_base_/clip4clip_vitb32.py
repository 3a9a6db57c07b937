# CLIP4Clip (meanP) over CLIP ViT-B/32, as NCL takes it (NCL Sec. 4, App. B); the temperature is
# CLIP's own, trained and kept >= 0.01.
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='CLIP4Clip',
        frames=dict(
            type='OpenCLIPFrames',
            model='ViT-B-32-quickgelu',
            pretrained='openai',
            # 128 x 12 frames keep 58 GB of activations (--amp: 29); on a GPU that has less set it.
            grad_checkpointing=False,
        ),
        text=dict(type='OpenCLIPText', model='ViT-B-32-quickgelu', pretrained='openai'),
    ),
    similarity=dict(type='CosineSimilarity'),
    temperature=dict(type='Temperature', init=0.01, learnable=True),
)
