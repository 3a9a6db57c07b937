# CLIP2Video over CLIP ViT-B/16 (DVTR Sec. V-A.2: 12 frames, 32 tokens, tau = .07).  Its code trains
# the losses of both matrices at CLIP's own scale, a weight of CLIP that starts at tau = .01, and so
# do the entries c2v_*.py; DVTR's .07 is stated for its debiased loss (Eq. 13), and
# clip2video/c2v_*_tau07.py have it without debiasing (docs/dvtr.md).
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='CLIP2Video',
        frames=dict(
            type='OpenCLIPFrames',
            model='ViT-B-16-quickgelu',
            pretrained='openai',
            # 128 x 12 frames keep 227 GB of activations (--amp: 114), with this 15 (7).  16 x 12,
            # the share of one of 8 processes, keep 28 (14): there set it to False, it is faster.
            grad_checkpointing=True,
        ),
        text=dict(type='OpenCLIPText', model='ViT-B-16-quickgelu', pretrained='openai'),
    ),
    similarity=dict(type='CosineSimilarity', levels=('global', 'aligned')),
    temperature=dict(type='Temperature', init=0.07),
)
