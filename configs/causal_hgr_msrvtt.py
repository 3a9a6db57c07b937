# Causal intervention on frame length, HGR on MSR-VTT 1k-A (Tab. 3).  Tab. 4: as
# causal_hgr_youcook2.py.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/msrvtt_hgr.py',
    '_base_/causal_hgr.py',
    '_base_/causal_msrvtt.py',
]

model = dict(
    member=dict(
        encoder=dict(
            frames=dict(in_dim=2048),
            text=dict(words=20000, pretrained='data/msrvtt/word_vectors.npy'),
        ),
    )
)
train_dataloader = _base_.by_length
