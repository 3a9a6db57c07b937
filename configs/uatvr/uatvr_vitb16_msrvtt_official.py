# UATVR over CLIP ViT-B/16 on MSR-VTT 1k-A, as its code has it.
_base_ = ['uatvr_vitb32_msrvtt_official.py']

model = dict(
    encoder=dict(
        # 64 x 12 frames keep 114 GB of activations without (--amp: 57), 8 x 12 keep 14 (7).
        frames=dict(model='ViT-B-16-quickgelu', grad_checkpointing=True),
        text=dict(model='ViT-B-16-quickgelu'),
    )
)
