# UATVR without the probabilistic part, on MSR-VTT 1k-A: row "+ DSA" of Tab. 1.
_base_ = ['../uatvr_vitb16_msrvtt.py']

model = dict(heads=None, objectives=dict(_delete_=True))
test_evaluator = [dict(type='mmvtr.RetrievalMetric')]
