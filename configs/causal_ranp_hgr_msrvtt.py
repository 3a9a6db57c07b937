# Causal intervention on frame length over RANP, MSR-VTT 1k-A (Tab. 3).
_base_ = [
    '_base_/default_runtime.py',
    '_base_/msrvtt_hgr.py',
    '_base_/causal_hgr.py',
    '_base_/causal_msrvtt.py',
    '_base_/ranp.py',
]

model = dict(
    member=dict(
        encoder=dict(
            frames=dict(in_dim=2048),
            text=dict(words=20000, pretrained='data/msrvtt/word_vectors.npy'),
        ),
        supervision=dict(_base_.ran.supervision, **_base_.ranp.supervision),
        losses=dict(_base_.ran.losses, **_base_.ranp.losses),
    )
)
train_dataloader = _base_.by_length
