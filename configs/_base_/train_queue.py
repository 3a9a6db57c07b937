# All rows of NCL's Tab. 5 in one test, beside the raw scores: the biases of the train queue (Sec.
# 3.4; 16,384 queries: App. B), the same without iterations (one-sided: the inverted softmax, a
# control), and an oracle that reads the test queries.  NormalisationMetric says the errors of Fig.
# 2 and 3 of each; `eval_scores.py --plot` draws Fig. 3 from the scores in the work dir.
custom_hooks = [
    dict(type='mmvtr.QueryQueueHook', size=16384),
    dict(type='mmvtr.SinkhornHook', queries='train_queue', temperature='model', iterations=4),
    dict(type='mmvtr.InvertedSoftmaxHook', queries='train_queue', temperature='model'),
    dict(type='mmvtr.SinkhornHook', queries='test', temperature='model', iterations=4),
    dict(type='mmvtr.ScoresFileHook'),
    dict(type='mmvtr.ModalityGapHook'),  # App. D; the last one, mmt_msrvtt.py leaves it out
]
