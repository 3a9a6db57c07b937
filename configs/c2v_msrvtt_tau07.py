# CLIP2Video at DVTR's fixed temperature of .07: beside dvtr_c2v_msrvtt.py only debiasing differs.
_base_ = ['c2v_msrvtt.py']

model = dict(temperature=dict(init=0.07, learnable=False))
