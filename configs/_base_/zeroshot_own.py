# All of your own table (docs/own_data.md), for a model that is not trained on it:
#     --cfg-options table=my.csv videos=my_clips weights=/path/to/checkpoint
_base_ = ['default_runtime.py', 'own.py', 'zeroshot_towers.py']

train_dataloader = val_dataloader = val_cfg = val_evaluator = None
test_dataloader = dict(dataset=dict(split='all'))
# Those of own.py, of the one set that is left.
of_the_set = {
    name: [key for key in keys if key.startswith(('own.', 'test_dataloader.'))]
    for name, keys in _base_.shortcuts.items()
    if name != 'batch'
}
shortcuts = dict(_delete_=True, **of_the_set, **_base_.zeroshot_shortcuts)
