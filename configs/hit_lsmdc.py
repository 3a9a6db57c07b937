# HiT on LSMDC (the baseline of dvtr_hit_lsmdc.py, which Tab. VII has not).
_base_ = ['_base_/default_runtime.py', '_base_/lsmdc_experts.py', '_base_/hit.py']

model = dict(encoder=_base_.rows)
