# CLIP2Video on MSR-VTT Full at DVTR's fixed temperature of .07: differs from
# dvtr_c2v_msrvtt_full.py by debiasing alone (docs/dvtr.md).
_base_ = ['../c2v_msrvtt_full.py']

model = dict(temperature=dict(init=0.07, learnable=False))
