# The control of causal_hgr_epic.py: parts of the same sizes, drawn at random.
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
train_dataloader = dict(
    _base_.by_length,
    dataset=dict(
        records=dict(environments=dict(type='RandomSplit', like=dict(type='LengthSplit', parts=2)))
    ),
)
default_hooks = dict(checkpoint=dict(save_best='relevance/avg_nDCG'))
shortcuts = dict(parts=['model.copies', 'train_dataloader.dataset.records.environments.like.parts'])
