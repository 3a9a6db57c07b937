# Perception Encoder ViT-B/16 on MSR-VTT 1k-A, zero-shot.
_base_ = ['_base_/default_runtime.py', '_base_/msrvtt_1ka.py', '_base_/zeroshot_towers.py']

train_dataloader = None
model = dict(encoder=_base_.encoders.pe)
test_dataloader = dict(dataset=_base_.reads.pe)
shortcuts = _base_.zeroshot_shortcuts
