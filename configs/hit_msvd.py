# HiT on MSVD (the baseline of dvtr_hit_msvd.py, which no table has).
_base_ = ['_base_/default_runtime.py', '_base_/msvd_experts.py', '_base_/hit.py']

model = dict(encoder=_base_.rows)
