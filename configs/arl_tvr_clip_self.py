# ARL whose branches learn from their own sets on TVR, CLIP ViT-L/14 features (Tab. 5, row c,
# without C.L.).  Row b also lacks the text-frame losses: model.supervision.frame_weight=0.
_base_ = ['arl_tvr_clip.py']

model = dict(supervision=dict(exchange=False))
