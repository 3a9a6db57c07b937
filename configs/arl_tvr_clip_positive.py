# ARL with ambiguous pairs taken for matches on TVR, CLIP ViT-L/14 features (Tab. 6).
_base_ = ['arl_tvr_clip.py']

model = dict(
    supervision=dict(strategy='positive'),
    losses=dict(nce=dict(form='outer_sum')),  # SupCon
)
