# UATVR's code over CLIP ViT-B/16 on MSR-VTT 1k-A: what its training script runs.
_base_ = ['uatvr_official_vitb32_msrvtt.py']

model = dict(
    encoder=dict(
        frames=dict(model='ViT-B-16-quickgelu'),
        text=dict(model='ViT-B-16-quickgelu'),
    )
)
