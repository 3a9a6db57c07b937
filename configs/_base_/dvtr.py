# DVTR on CLIP2Video: heads (Eq. 3-6), weights of negatives (Eq. 7-11), debiased loss (Eq. 13).
# The model under them is c2v_vitb16.py's.  Over schedule_clip_5e.py an entry adds 2e-5 for the
# heads (Sec. V-A.2) and 1e-2 for slope and bias of the match probability, two numbers that have
# far to go: at 2e-5 they stay where they start (docs/dvtr.md); and EtaMonitorHook, which warns of a
# collapse that no loss shows.
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
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='DVTRSupervision',
        num_samples=7,  # K, Sec. V-A.2
        # Ours, as eta is a ratio here; one value for all sets and baselines (docs/dvtr.md).
        reference='mean',
        sharpness=2.0,
        floor=0.0,  # Eq. 13 has none
        ramp=(0.33, 0.67),  # epochs 1.7 to 3.3: the heads learn first
    ),
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
)
