# Causal intervention on frame length (Sec. 3.3, M = 2), HGR on EPIC-KITCHENS-100 (Tab. 1): one HGR
# learns from clips shorter than the train mean of 172 frames (50,281), one from the others
# (16,936), and their scores are summed.  Tab. 4: `--cfg-options parts=3`, `parts=4`; equal parts
# are `train_dataloader.dataset.records.environments.rule=equal`; each part alone is member_0 or
# member_1.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/epic.py',
    '_base_/causal_hgr.py',
    '_base_/causal.py',
]

model = dict(
    member=dict(
        encoder=dict(
            frames=dict(in_dim=3072),
            text=dict(words=2000, pretrained='data/epic/word_vectors.npy'),
        ),
    )
)
train_dataloader = _base_.by_length
default_hooks = dict(checkpoint=dict(save_best='relevance/avg_nDCG'))
