# MMT on MSR-VTT 1k-A with its own max-margin loss, tested as NCL is, whose
# baseline it is (ncl_mmt_msrvtt.py).
_base_ = ['_base_/mmt_msrvtt.py', '_base_/train_queue.py']

test_evaluator = [*_base_.test_evaluator, dict(type='mmvtr.NormalisationMetric')]
# Tokens of 7 experts a query: .5 GB of queues in each checkpoint.  No modality gap: a score is no
# inner product of two vectors.
custom_hooks = _base_.custom_hooks[:-1]
