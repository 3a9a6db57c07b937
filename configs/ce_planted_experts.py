# Collaborative Experts, small, on four experts of the planted corpus (docs/experts.md); a training
# takes minutes.  Settings are ours: 12 epochs of Adam, a margin of .2 (CE's .0938 is for 30).
_base_ = ['_base_/default_runtime.py', '_base_/planted_experts.py', '_base_/ce.py']

known = dict(
    video_pipeline=_base_.pipelines.video_pipeline,
    text_pipeline=[dict(type='LoadTextFeatures', path=_base_.stores + 'words', max_words=24)],
)
train_dataloader = dict(dataset=known)
val_dataloader = dict(dataset=known)
test_dataloader = dict(dataset=known)

model = dict(
    encoder=dict(
        text=dict(in_dim=64),
        experts=dict(
            _delete_=True, **{name: expert['dim'] for name, expert in _base_.experts.items()}
        ),
        clusters=dict(_delete_=True, audio=4, object=4, scene=4, speech=4),
        text_clusters=8,
        dim=128,
    ),
    losses=dict(ranking=dict(margin=0.2)),
)
optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmvtr.MatrixDecayConstructor',
    optimizer=dict(type='AdamW', lr=1e-3, weight_decay=1e-2),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=12, val_interval=4)
param_scheduler = [dict(type='CosineAnnealingLR', eta_min_ratio=0.01, convert_to_iter_based=True)]
auto_scale_lr = dict(base_batch_size=64)
