# MSVD: 1,200 / 100 / 670 clips, every one of about 41 captions a text (docs/data.md).
_base_ = ['data_clip4clip.py']

train_dataloader = dict(dataset=dict(type='mmvtr.MSVDDataset', split='train'))
val_dataloader = dict(
    _base_.test_dataloader,
    dataset=dict(_base_.test_dataloader.dataset, type='mmvtr.MSVDDataset', split='val'),
)
test_dataloader = dict(dataset=dict(type='mmvtr.MSVDDataset', split='test'))
val_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = [dict(type='mmvtr.RetrievalMetric')]
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.NormalisationMetric'),  # NCL Fig. 2 and 3
]
