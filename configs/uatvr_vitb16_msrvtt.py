# UATVR over CLIP ViT-B/16 on MSR-VTT 1k-A (UATVR Tab. 6).
_base_ = ['uatvr_vitb32_msrvtt.py']

model = dict(
    encoder=dict(
        frames=dict(model='ViT-B-16-quickgelu'),
        text=dict(model='ViT-B-16-quickgelu'),
    )
)
