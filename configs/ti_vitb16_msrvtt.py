# Token-wise matching of words and frames on MSR-VTT 1k-A: row "TI" of UATVR Tab. 1 and 2.  It has
# the transformer, too (its parameters are in Tab. 2).
_base_ = ['uatvr_vitb16_msrvtt.py']

model = dict(
    encoder=dict(extra_frames=0, extra_words=0),  # Eq. 7
    heads=None,
    objectives=dict(_delete_=True),
)
test_evaluator = [dict(type='mmvtr.RetrievalMetric')]
