# A small HiT, trained from scratch, on four experts of the planted corpus (docs/data.md). Its banks
# are 4 batches long, and its keys follow within a hundred steps, HiT's within a thousand: if keys
# move faster, an item's own key in the bank is betrayed by its age
# (projects/lab/evidence/pages/planted.md).
_base_ = [
    '../../../configs/_base_/default_runtime.py',
    '../../../configs/_base_/planted_experts.py',
    '../../../configs/_base_/hit.py',
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
    bank_size=256,
    momentum=0.99,
)

optim_wrapper = dict(optimizer=dict(lr=1e-3))
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=10, val_interval=5)
auto_scale_lr = dict(base_batch_size=64)
