# Token-wise matching (UATVR Eq. 7) on planted clips of three moments, from cached features: frames
# and words go through UATVR's transformer.  The same tokens pooled:
# pooled_planted_untrimmed_features.py.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_untrimmed_features.py',
    '../../../configs/_base_/uatvr_features.py',
]

model = dict(
    encoder=dict(max_frames=24, extra_frames=0, extra_words=0),
    heads=None,
    objectives=dict(_delete_=True),
)
train_dataloader = dict(dataset=dict(epoch_unit='video'))  # one caption per clip and epoch
val_evaluator = test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
]
train_cfg = dict(max_epochs=24, val_interval=8)
