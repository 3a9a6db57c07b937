# CLIP2Video on MSR-VTT 1k-A at DVTR's fixed temperature of .07: differs from dvtr_c2v_msrvtt.py by
# debiasing alone (docs/dvtr.md).
_base_ = ['../c2v_msrvtt.py']

model = dict(temperature=dict(init=0.07, learnable=False))
