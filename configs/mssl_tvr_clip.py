# MS-SL on TVR, CLIP ViT-L/14 features, up to 77 words (ARL Tab. 2).
_base_ = ['_base_/prvr.py', '_base_/prvr_tvr_clip.py', '_base_/mssl_i3d.py']

model = dict(
    losses=dict(t2v=dict(margin=0.1), v2t=dict(margin=0.1)),
    encoder=dict(frames=dict(in_dim=768), text=dict(in_dim=768), max_words=77),
)
