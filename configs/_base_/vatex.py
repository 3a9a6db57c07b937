# VATEX: 25,991 / 1,500 / 1,500 clips with 10 English captions each, HGR's split (docs/data.md).
# CLIP2Video's test list (split='test_1k5') shares clips with val: train for it without validation.
_base_ = ['data_clip4clip.py']

train_dataloader = dict(dataset=dict(type='mmvtr.VATEXDataset', split='train'))
val_dataloader = dict(
    _base_.test_dataloader,
    dataset=dict(_base_.test_dataloader.dataset, type='mmvtr.VATEXDataset', split='val'),
)
test_dataloader = dict(dataset=dict(type='mmvtr.VATEXDataset', split='test'))
val_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = [dict(type='mmvtr.RetrievalMetric')]
