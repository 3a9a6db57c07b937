# CLIP2Video over CLIP ViT-B/32 on MSR-VTT 1k-A: its published row (45.6 R@1; DVTR Tab. III, UATVR
# Tab. 6).  DVTR states ViT-B/16 for its own (Sec. V-A.2).
_base_ = ['c2v_msrvtt.py']

model = dict(
    encoder=dict(
        frames=dict(model='ViT-B-32-quickgelu'),
        text=dict(model='ViT-B-32-quickgelu'),
    )
)
