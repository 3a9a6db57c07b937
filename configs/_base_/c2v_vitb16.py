# CLIP2Video over CLIP ViT-B/16 (DVTR Sec. V-A.2: 12 frames, 32 tokens, tau = .07).  Its code trains
# the losses of both matrices at CLIP's own scale, a weight of CLIP that starts at tau = .01, and so
# do the entries c2v_*.py; DVTR's .07 is stated for its debiased loss (Eq. 13), and
# `+tau07` has it without debiasing (docs/dvtr.md).
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

# The triplet loss (DVTR Eq. 1, margin of Tab. XII): the baseline of dvtr_c2v_*+triplet.py.
preset_triplet = {
    'model.losses': dict(
        _delete_=True,
        triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.5),
    ),
    'model.temperature': dict(_delete_=True, type='Temperature', init=0.07),
    'custom_hooks': [],
}
# CLIP2Video's own backbone; 128 x 12 frames keep 58 GB of activations (--amp: 29).
preset_vitb32 = {
    'model.encoder.frames.model': 'ViT-B-32-quickgelu',
    'model.encoder.frames.grad_checkpointing': False,
    'model.encoder.text.model': 'ViT-B-32-quickgelu',
}
# QB-Norm, whose numbers stand beside the raw ones, as qb_norm/retrieval/...
preset_qbnorm = {
    'custom_hooks': [
        dict(type='mmvtr.QueryQueueHook', size=16384),
        # beta of QB-Norm's code
        dict(type='mmvtr.QBNormHook', queries='train_queue', temperature=1 / 20),
    ],
    'default_hooks.checkpoint.save_best': 'qb_norm/retrieval/rsum',
}
