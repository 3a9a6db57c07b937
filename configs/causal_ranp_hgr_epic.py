# Causal intervention on frame length over RANP, EPIC-KITCHENS-100 (Tab. 2).
_base_ = [
    '_base_/default_runtime.py',
    '_base_/epic.py',
    '_base_/causal_hgr.py',
    '_base_/causal.py',
    '_base_/ranp.py',
]

model = dict(
    member=dict(
        encoder=dict(
            frames=dict(in_dim=3072),
            text=dict(words=2000, pretrained='data/epic/word_vectors.npy'),
        ),
        supervision=dict(_base_.ran.supervision, **_base_.ranp.supervision),
        losses=dict(_base_.ran.losses, **_base_.ranp.losses),
    )
)
train_dataloader = _base_.by_length
default_hooks = dict(checkpoint=dict(save_best='relevance/avg_nDCG'))
