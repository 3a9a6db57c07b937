# RAN on HGR, MSR-VTT 1k-A (frame-length paper, Tab. 3).
_base_ = ['hgr_msrvtt.py', '_base_/ran.py']

model = _base_.ran
