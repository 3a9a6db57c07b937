# DVTR + HiT on LSMDC (DVTR Tab. VII).
_base_ = ['_base_/default_runtime.py', '_base_/lsmdc_experts.py', '_base_/dvtr_hit.py']

model = dict(encoder=_base_.rows)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
