# HGR on YouCook2: S3D features (1,024 wide, as the parameters in Tab. 5 of the frame-length paper
# tell), verbs and nouns found by rules.
_base_ = ['_base_/default_runtime.py', '_base_/youcook2.py', '_base_/hgr.py']

model = dict(
    encoder=dict(
        frames=dict(in_dim=1024),
        text=dict(words=3000, pretrained='data/youcook2/word_vectors.npy'),
    )
)
