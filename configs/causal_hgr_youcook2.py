# Causal intervention on frame length, HGR on YouCook2 (Tab. 3).  Tab. 4: as causal_hgr_epic.py;
# equal parts also need `train_dataloader.dataset.records.environments.share=None`.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/youcook2.py',
    '_base_/causal_hgr.py',
    '_base_/causal_youcook2.py',
]

model = dict(
    member=dict(
        encoder=dict(
            frames=dict(in_dim=1024),
            text=dict(words=3000, pretrained='data/youcook2/word_vectors.npy'),
        ),
    )
)
train_dataloader = _base_.by_length
