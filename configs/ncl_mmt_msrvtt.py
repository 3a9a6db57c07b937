# NCL on MMT, MSR-VTT 1k-A: not in its paper.  The normalised contrastive loss stands in place of
# MMT's max-margin loss, at temperature .07, as NCL has it on SSB (App. C); Adam sees no factor of
# 15.
_base_ = ['_base_/mmt_msrvtt.py', '_base_/train_queue.py']

model = dict(
    losses=dict(_delete_=True, contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)),
    temperature=dict(type='Temperature', init=0.07),
)
test_evaluator = [*_base_.test_evaluator, dict(type='mmvtr.NormalisationMetric')]
custom_hooks = [
    dict(type='mmvtr.QueryQueueHook', size=16384),
    dict(type='mmvtr.SinkhornHook', queries='train_queue', temperature='model', iterations=4),
    dict(type='mmvtr.InvertedSoftmaxHook', queries='train_queue', temperature='model'),
    dict(type='mmvtr.SinkhornHook', queries='test', temperature='model', iterations=4),
    dict(type='mmvtr.ScoresFileHook'),
]
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
