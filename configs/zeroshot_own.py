# CLIP ViT-B/32 on all of your own table (docs/own_data.md), zero-shot:
#     --cfg-options table=my.csv videos=my_clips weights=/path/to/checkpoint
_base_ = ['_base_/default_runtime.py', '_base_/own.py', '_base_/zeroshot_towers.py']

train_dataloader = val_dataloader = val_cfg = val_evaluator = None
model = dict(encoder=_base_.encoders.vitb32)
test_dataloader = dict(dataset=dict(_base_.reads.vitb32, split='all'))
# Those of own.py, of the one set that is left.
of_the_set = {
    name: [key for key in keys if key.startswith(('own.', 'test_dataloader.'))]
    for name, keys in _base_.shortcuts.items()
    if name != 'batch'
}
shortcuts = dict(_delete_=True, **of_the_set, **_base_.zeroshot_shortcuts)
