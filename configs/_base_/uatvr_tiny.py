# UATVR over a CLIP small enough to train from scratch on two CPU cores.
_base_ = ['uatvr_printed_vitb32.py']

clip = dict(
    embed_dim=128,
    vision_cfg=dict(layers=2, width=64, head_width=32, patch_size=8, image_size=64),
    text_cfg=dict(context_length=32, vocab_size=78, width=128, heads=4, layers=2),
)
model = dict(
    encoder=dict(
        frames=dict(_delete_=True, type='OpenCLIPFrames', model=clip),
        text=dict(_delete_=True, type='OpenCLIPText', model=clip),
        temporal_layers=1,
        max_frames=16,
    ),
    temperature=dict(_delete_=True, type='Temperature', init=0.07),
)
