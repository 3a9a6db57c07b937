# RAN on HGR, YouCook2 (frame-length paper, Tab. 3).
_base_ = ['hgr_youcook2.py', '_base_/ran.py']

model = _base_.ran
