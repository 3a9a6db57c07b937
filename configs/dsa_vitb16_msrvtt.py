# UATVR without the probabilistic part on MSR-VTT 1k-A: row "+ DSA" of its Tab. 1 as Eq. 8 is
# printed, 162.3 M parameters; the paper's 162.8 M have learnt token weights (docs/uatvr.md).
_base_ = ['uatvr_vitb16_msrvtt.py']

model = dict(heads=None, objectives=dict(_delete_=True))
test_evaluator = [dict(type='RetrievalMetric')]
