# An oracle, not a method: the encoder of pooled_planted_untrimmed_features.py, with the knowledge
# that a clip has three moments of about equal length; a text is compared with the mean of the best
# moment.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_untrimmed_features.py',
    '../../../configs/_base_/uatvr_features.py',
]

# PYTHONPATH=projects/lab/evidence
custom_imports = dict(imports=['study_parts.best_part'], allow_failed_imports=False)
model = dict(
    encoder=dict(max_frames=24, extra_frames=0, extra_words=0),
    similarity=dict(type='BestPartSimilarity', parts=3),
    heads=None,
    objectives=dict(_delete_=True),
)
train_dataloader = dict(dataset=dict(epoch_unit='video'))  # one caption per clip and epoch
val_evaluator = test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
]
train_cfg = dict(max_epochs=24, val_interval=8)
