# RANP on HGR, MSR-VTT 1k-A (frame-length paper, Tab. 3).
_base_ = ['ran_hgr_msrvtt.py', '_base_/ranp.py']

model = _base_.ranp
