# The test set of MSR-VTT 1k-A for a model that is not trained on it.
_base_ = ['default_runtime.py', 'msrvtt_1ka.py', 'zeroshot.py']

train_dataloader = None
