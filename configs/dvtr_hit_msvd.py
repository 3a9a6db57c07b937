# DVTR + HiT on MSVD (DVTR Tab. IV).
_base_ = ['_base_/default_runtime.py', '_base_/msvd_experts.py', '_base_/dvtr_hit.py']

model = dict(encoder=_base_.rows)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
