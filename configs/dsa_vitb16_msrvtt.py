# UATVR without the probabilistic part on MSR-VTT 1k-A: row "+ DSA" of its Tab. 1 and 2.
_base_ = ['uatvr_vitb16_msrvtt.py']
# 1k-A has no validation set: the last epoch is tested, and nothing is chosen on the test set.

model = dict(heads=None, objectives=dict(_delete_=True))
test_evaluator = [dict(type='mmvtr.RetrievalMetric')]
