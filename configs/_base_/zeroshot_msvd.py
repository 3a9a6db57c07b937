# The test set of MSVD for a model that is not trained on it.
_base_ = ['default_runtime.py', 'msvd.py', 'zeroshot.py']

train_dataloader = val_dataloader = val_cfg = val_evaluator = None
