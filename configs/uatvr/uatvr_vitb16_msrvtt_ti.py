# UATVR's token-wise matching of words and frames alone, on MSR-VTT 1k-A: row "TI" of Tab. 1 (Eq.
# 7).  It has the transformer, too (its parameters are in Tab. 2).
_base_ = ['uatvr_vitb16_msrvtt_dsa.py']

model = dict(encoder=dict(extra_frames=0, extra_words=0))
