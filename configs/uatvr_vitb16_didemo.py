# UATVR over CLIP ViT-B/16 on DiDeMo paragraphs (UATVR Tab. 8).
_base_ = ['uatvr_vitb32_didemo.py']

model = dict(
    encoder=dict(
        frames=dict(model='ViT-B-16-quickgelu'),
        text=dict(model='ViT-B-16-quickgelu'),
    )
)
