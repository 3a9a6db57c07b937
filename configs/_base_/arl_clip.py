# ARL's two encoders on stored features of CLIP ViT-L/14: frames, and up to 77 words (ARL Tab. 2).
_base_ = ['arl_i3d.py']

model = dict(
    encoder=dict(
        encoder=dict(frames=dict(in_dim=768), text=dict(in_dim=768), max_words=77),
    ),
)
