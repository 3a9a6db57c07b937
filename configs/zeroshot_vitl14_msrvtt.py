# CLIP ViT-L/14 on MSR-VTT 1k-A, zero-shot.
_base_ = ['_base_/default_runtime.py', '_base_/msrvtt_1ka.py', '_base_/zeroshot_towers.py']

train_dataloader = None
model = dict(encoder=_base_.encoders.vitl14)
test_dataloader = dict(dataset=_base_.reads.vitl14)
shortcuts = _base_.zeroshot_shortcuts
