# HGR on MSR-VTT 1k-A: ResNet152 features, verbs and nouns found by rules.
_base_ = ['_base_/default_runtime.py', '_base_/msrvtt_hgr.py', '_base_/hgr.py']

model = dict(
    encoder=dict(
        frames=dict(in_dim=2048),
        text=dict(words=20000, pretrained='data/msrvtt/word_vectors.npy'),
    )
)
