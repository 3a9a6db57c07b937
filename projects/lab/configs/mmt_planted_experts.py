# A small MMT on four experts of the planted corpus (docs/data.md); a training takes minutes.
_base_ = [
    '../../../configs/_base_/default_runtime.py',
    '../../../configs/_base_/planted_experts.py',
    '../../../configs/_base_/mmt.py',
]

bert = dict(
    model_type='bert',
    vocab_size=78,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
)
model = dict(
    encoder=dict(
        text=dict(_delete_=True, type='TransformersText', model=bert, dim=None),
        experts={name: expert['dim'] for name, expert in _base_.experts.items()},
        dim=128,
        layers=2,
        feedforward=256,
    ),
    losses=dict(ranking=dict(margin=0.2)),
)

optim_wrapper = dict(optimizer=dict(lr=1e-3))
param_scheduler = [dict(type='CosineAnnealingLR', eta_min_ratio=0.01, convert_to_iter_based=True)]
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=12, val_interval=4)
auto_scale_lr = dict(base_batch_size=64)
