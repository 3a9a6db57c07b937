# RAN on HGR, MSR-VTT Full (frame-length paper, Tab. 9).
_base_ = ['hgr_msrvtt_full.py', '_base_/ran.py']

model = _base_.ran
