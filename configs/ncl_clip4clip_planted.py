# NCL on CLIP4Clip, trained from scratch on the planted corpus in a few minutes on two CPU cores.
_base_ = ['clip4clip_planted.py', '_base_/train_queue_planted.py']

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.SemanticMetric'),
    dict(type='mmvtr.NormalisationMetric'),
]
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
