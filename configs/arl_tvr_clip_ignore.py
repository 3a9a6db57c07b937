# ARL with ambiguous pairs left out on TVR, CLIP ViT-L/14 features (Tab. 6).
_base_ = ['arl_tvr_clip.py']

model = dict(
    supervision=dict(strategy='ignore'),
)
