# ARL whose branches learn from their own sets on TVR, CLIP ViT-L/14 features (Tab. 5, without C.L).
_base_ = ['arl_tvr_clip.py']

model = dict(supervision=dict(exchange=False))
