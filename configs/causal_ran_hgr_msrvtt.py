# Causal intervention on frame length over RAN, MSR-VTT 1k-A (Tab. 3).
_base_ = [
    '_base_/default_runtime.py',
    '_base_/msrvtt_hgr.py',
    '_base_/causal_hgr.py',
    '_base_/causal_msrvtt.py',
    '_base_/ran.py',
]

model = dict(
    member=dict(
        encoder=dict(
            frames=dict(in_dim=2048),
            text=dict(words=20000, pretrained='data/msrvtt/word_vectors.npy'),
        ),
        **_base_.ran,
    )
)
train_dataloader = _base_.by_length
