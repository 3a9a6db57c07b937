# CLIP2Video on MSR-VTT 1k-A over its own backbone, ViT-B/32.  128 x 12 frames keep 58 GB of
# activations (--amp: 29).
_base_ = ['../c2v_msrvtt.py']

model = dict(
    encoder=dict(
        frames=dict(model='ViT-B-32-quickgelu', grad_checkpointing=False),
        text=dict(model='ViT-B-32-quickgelu'),
    )
)
