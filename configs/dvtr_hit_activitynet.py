# DVTR + HiT on ActivityNet (DVTR Tab. VI).
_base_ = ['_base_/default_runtime.py', '_base_/activitynet_experts.py', '_base_/dvtr_hit.py']

model = dict(encoder=_base_.rows)
