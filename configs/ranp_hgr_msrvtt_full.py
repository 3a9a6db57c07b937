# RANP on HGR, MSR-VTT Full (frame-length paper, Tab. 9).
_base_ = ['ran_hgr_msrvtt_full.py', '_base_/ranp.py']

model = _base_.ranp
