# RAN on HGR, EPIC-KITCHENS-100 (frame-length paper, Tab. 2).
_base_ = ['hgr_epic.py', '_base_/ran.py']

model = _base_.ran
