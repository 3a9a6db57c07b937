# UATVR over CLIP ViT-B/16 on MSVD (UATVR Tab. 9).
_base_ = ['uatvr_vitb32_msvd.py']

model = dict(
    encoder=dict(
        frames=dict(model='ViT-B-16-quickgelu'),
        text=dict(model='ViT-B-16-quickgelu'),
    )
)
