# CLIP ViT-B/32 on LSMDC, zero-shot.
_base_ = ['_base_/default_runtime.py', '_base_/lsmdc.py', '_base_/zeroshot_towers.py']

train_dataloader = val_dataloader = val_cfg = val_evaluator = None
model = dict(encoder=_base_.encoders.vitb32)
test_dataloader = dict(dataset=_base_.reads.vitb32)
shortcuts = _base_.zeroshot_shortcuts
