# CLIP2Video over CLIP ViT-B/16 (DVTR Sec. V-A.2: 12 frames, 32 tokens, tau = .07).
model = dict(
    type='VideoTextRetriever',
    data_preprocessor=dict(type='VideoTextDataPreprocessor'),
    encoder=dict(
        type='CLIP2Video',
        frames=dict(
            type='OpenCLIPFrames',
            model='ViT-B-16-quickgelu',
            pretrained='openai',
            grad_checkpointing=True,  # 128 x 12 frames at a time
        ),
        text=dict(type='OpenCLIPText', model='ViT-B-16-quickgelu', pretrained='openai'),
    ),
    similarity=dict(type='CosineSimilarity', levels=('global', 'aligned')),
    temperature=dict(type='Temperature', init=0.07),
)
