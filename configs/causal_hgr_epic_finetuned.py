# The paper's "failure method" (App. C.4): both members start from one HGR trained on all clips,
# which hgr_epic.py makes.
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
custom_hooks = [dict(type='mmvtr.MembersHook', start='work_dirs/hgr_epic/epoch_100.pth')]
