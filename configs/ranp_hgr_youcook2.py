# RANP on HGR, YouCook2 (frame-length paper, Tab. 3).
_base_ = ['ran_hgr_youcook2.py', '_base_/ranp.py']

model = _base_.ranp
