# CLIP4Clip's mean of the frames on planted clips of three moments, from cached features of 24
# frames: the control of xpool_planted_features.py.
_base_ = [
    '_base_/schedule_planted.py',
    '_base_/clip4clip_tiny.py',
    '_base_/planted_untrimmed_features.py',
]

model = dict(
    encoder=dict(frames=dict(_delete_=True, type='FeatureFrames', in_dim=128)),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)
train_dataloader = dict(dataset=dict(epoch_unit='video'))  # a caption of each clip an epoch
val_evaluator = [dict(type='mmvtr.RetrievalMetric'), dict(type='mmvtr.SemanticMetric')]
test_evaluator = val_evaluator
train_cfg = dict(max_epochs=10, val_interval=5)
