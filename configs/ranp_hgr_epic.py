# RANP on HGR, EPIC-KITCHENS-100 (frame-length paper, Tab. 2).
_base_ = ['ran_hgr_epic.py', '_base_/ranp.py']

model = _base_.ranp
