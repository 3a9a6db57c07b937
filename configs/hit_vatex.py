# HiT on VATEX (the baseline of dvtr_hit_vatex.py, which no table has).
_base_ = ['_base_/default_runtime.py', '_base_/vatex_experts.py', '_base_/hit.py']

model = dict(encoder=_base_.rows)
