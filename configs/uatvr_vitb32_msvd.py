# UATVR over CLIP ViT-B/32 on MSVD (UATVR Tab. 9).
_base_ = [
    '_base_/msvd.py',
    '_base_/schedule_uatvr_5e.py',
    '_base_/uatvr_vitb32.py',
]

train_dataloader = dict(batch_size=64)
val_evaluator = test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.UncertaintyMetric'),
]
