# LSMDC: 101,079 / 7,408 / 1,000 clips with a sentence each (docs/data.md).  CLIP4Clip's 12 frames
# and 32 words; like it, all of val chooses the checkpoint.
_base_ = ['data_clip4clip.py']

train_dataloader = dict(dataset=dict(type='mmvtr.LSMDCDataset', split='train'))
val_dataloader = dict(
    _base_.test_dataloader,
    dataset=dict(_base_.test_dataloader.dataset, type='mmvtr.LSMDCDataset', split='val'),
)
test_dataloader = dict(dataset=dict(type='mmvtr.LSMDCDataset', split='test'))
val_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = [dict(type='mmvtr.RetrievalMetric')]
