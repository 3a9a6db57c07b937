# Causal intervention on frame length over RANP, YouCook2 (Tab. 3).
_base_ = [
    '_base_/default_runtime.py',
    '_base_/youcook2.py',
    '_base_/causal_hgr.py',
    '_base_/causal_youcook2.py',
    '_base_/ranp.py',
]

model = dict(
    member=dict(
        encoder=dict(
            frames=dict(in_dim=1024),
            text=dict(words=3000, pretrained='data/youcook2/word_vectors.npy'),
        ),
        supervision=dict(_base_.ran.supervision, **_base_.ranp.supervision),
        losses=dict(_base_.ran.losses, **_base_.ranp.losses),
    )
)
train_dataloader = _base_.by_length
