# ARL with the paper's thresholds on ActivityNet Captions, CLIP ViT-L/14 features (Tab. 2): tau_s is
# the mean score of annotated pairs, tau_u the mean of their u, for pairs and frames, and sets have
# any size.
_base_ = ['_base_/prvr.py', '_base_/prvr_activitynet_clip.py', '_base_/arl_i3d.py']

model = dict(
    encoder=dict(encoder=dict(frames=dict(in_dim=768), text=dict(in_dim=768), max_words=77)),
    supervision=dict(cap=None, rule='mean', u_spread=0.0),
)
