# HGR on EPIC-KITCHENS-100: TBN features, verbs and nouns as annotated.
_base_ = ['_base_/default_runtime.py', '_base_/epic.py', '_base_/hgr.py']

model = dict(
    encoder=dict(
        frames=dict(in_dim=3072),
        text=dict(words=2000, pretrained='data/epic/word_vectors.npy'),
    )
)
default_hooks = dict(checkpoint=dict(save_best='relevance/avg_nDCG'))
