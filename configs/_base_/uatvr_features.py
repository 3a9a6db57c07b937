# UATVR as its equations print it (uatvr_vitb32.py has what its tables were measured with), over
# stored features of frames, 128 wide, and a small text tower that starts from nothing.
clip = dict(
    embed_dim=128,
    vision_cfg=dict(layers=2, width=64, head_width=32, patch_size=8, image_size=64),
    text_cfg=dict(context_length=32, vocab_size=78, width=128, heads=4, layers=2),
)
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='UATVR',
        frames=dict(type='FeatureFrames', in_dim=128),
        text=dict(type='OpenCLIPText', model=clip),
        temporal_layers=1,
        max_frames=16,
        max_words=32,
        extra_frames=3,
        extra_words=2,
    ),
    similarity=dict(type='TokenSimilarity'),  # Eq. 8
    temperature=dict(type='Temperature', init=0.07),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),  # Eq. 4-6
    heads=dict(type='GaussianHead'),  # Eq. 9
    head_reads='local',
    detach_heads=False,
    objectives=dict(
        dua=dict(type='MultiInstanceContrast', num_samples=7, loss_weight=1e-2),  # Eq. 11
        kl=dict(type='KLToUnit', loss_weight=1e-4),  # Eq. 12
    ),
)
