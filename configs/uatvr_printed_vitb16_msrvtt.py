# UATVR on MSR-VTT 1k-A as its equations print it: means over tokens (Eq. 8) and heads of one layer
# (Eq. 9), 163.3 M parameters where Tab. 2 counts 164.9 M; what docs/uatvr.md measures.
_base_ = ['uatvr_vitb16_msrvtt.py']

model = dict(
    similarity=dict(_delete_=True, type='TokenSimilarity'),
    heads=dict(_delete_=True, type='GaussianHead'),
)
