# TACo on MSR-VTT 1k-A.  Ours: the experts are those of HiT, 30 rows each, where the paper has
# ResNet-152 with S3D or I3D (48 rows in all); 30 tokens are the paper's.  21 epochs of 1,407 steps
# are its 30,000.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/msrvtt_1ka_experts.py',
    '_base_/taco.py',
    '_base_/schedule_taco.py',
]

annotations = dict(type='mmvtr.MSRVTTDataset', split='1kA_train9k')
words = [
    dict(type='HFTokenize', model='bert-base-uncased', max_length=30, spans=True),
    dict(type='TokensOfInterest', counted=annotations, length=30),
]
train_dataloader = dict(dataset=dict(text_pipeline=words))
test_dataloader = dict(dataset=dict(text_pipeline=words))

model = dict(encoder=_base_.rows)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=21, val_interval=1)
