# CLIP4Clip's mean of the frames on planted clips of three moments, from cached features of 24
# frames: the control of xpool_planted_features.py.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_untrimmed_features.py',
    '../../../configs/_base_/clip4clip_features.py',
]

model = dict(losses=dict(contrastive=dict(type='ContrastiveLoss')))
train_dataloader = dict(dataset=dict(epoch_unit='video'))  # one caption per clip and epoch
val_evaluator = test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
]
train_cfg = dict(max_epochs=10, val_interval=5)
