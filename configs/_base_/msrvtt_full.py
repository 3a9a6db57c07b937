# MSR-VTT Full: 6,513 / 497 / 2,990 videos with 20 captions each (docs/data.md).
_base_ = ['data_clip4clip.py']

train_dataloader = dict(dataset=dict(type='mmvtr.MSRVTTDataset', split='full_train'))
val_dataloader = dict(
    _base_.test_dataloader,
    dataset=dict(_base_.test_dataloader.dataset, type='mmvtr.MSRVTTDataset', split='full_val'),
)
test_dataloader = dict(dataset=dict(type='mmvtr.MSRVTTDataset', split='full_test'))
val_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = [dict(type='mmvtr.RetrievalMetric')]
