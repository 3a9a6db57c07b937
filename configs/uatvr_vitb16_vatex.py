# UATVR over CLIP ViT-B/16 on VATEX, HGR's split (UATVR Tab. 7).
_base_ = ['uatvr_vitb32_vatex.py']

model = dict(
    encoder=dict(
        frames=dict(model='ViT-B-16-quickgelu'),
        text=dict(model='ViT-B-16-quickgelu'),
    )
)
