# ARL without its text-frame losses on TVR, CLIP ViT-L/14 features (Tab. 5, row d).
_base_ = ['arl_tvr_clip.py']

model = dict(supervision=dict(frame_weight=0.0))
