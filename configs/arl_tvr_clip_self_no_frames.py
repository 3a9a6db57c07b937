# ARL's text-video level alone on TVR, CLIP ViT-L/14 features (Tab. 5, row b): branches learn from
# their own sets, and there are no text-frame losses.
_base_ = ['arl_tvr_clip_self.py']

model = dict(supervision=dict(frame_weight=0.0))
