# DVTR + HiT on MSR-VTT 1k-A (DVTR Tab. III).
_base_ = ['_base_/default_runtime.py', '_base_/msrvtt_1ka_experts.py', '_base_/dvtr_hit.py']

model = dict(encoder=_base_.rows)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
