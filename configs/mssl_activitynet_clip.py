# MS-SL on ActivityNet Captions, CLIP ViT-L/14 features, up to 77 words (ARL Tab. 2).
_base_ = ['_base_/prvr.py', '_base_/prvr_activitynet_clip.py', '_base_/mssl_i3d.py']

model = dict(encoder=dict(frames=dict(in_dim=768), text=dict(in_dim=768), max_words=77))
