# SigLIP 2 ViT-B/16 on MSVD, zero-shot.
_base_ = ['_base_/default_runtime.py', '_base_/msvd.py', '_base_/zeroshot_towers.py']

train_dataloader = val_dataloader = val_cfg = val_evaluator = None
model = dict(encoder=_base_.encoders.siglip2)
test_dataloader = dict(dataset=_base_.reads.siglip2)
shortcuts = _base_.zeroshot_shortcuts
