# Causal intervention on frame length over RAN, EPIC-KITCHENS-100 (Tab. 2).
_base_ = [
    '_base_/default_runtime.py',
    '_base_/epic.py',
    '_base_/causal_hgr.py',
    '_base_/causal.py',
    '_base_/ran.py',
]

model = dict(
    member=dict(
        encoder=dict(
            frames=dict(in_dim=3072),
            text=dict(words=2000, pretrained='data/epic/word_vectors.npy'),
        ),
        **_base_.ran,
    )
)
train_dataloader = _base_.by_length
default_hooks = dict(checkpoint=dict(save_best='relevance/avg_nDCG'))
