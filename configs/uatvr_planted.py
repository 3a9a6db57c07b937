# UATVR, trained from scratch on the planted corpus in a few minutes on two CPU cores.
_base_ = [
    '_base_/planted.py',
    '_base_/schedule_planted.py',
    '_base_/uatvr_tiny.py',
]

test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
    dict(type='mmvtr.UncertaintyMetric'),
    dict(type='mmvtr.GeneralCaptionMetric'),
]
train_cfg = dict(max_epochs=10, val_interval=5)  # 12 on features, which cost little
