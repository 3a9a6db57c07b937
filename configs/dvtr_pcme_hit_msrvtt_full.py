# DVTR with PCME's match probability as its uncertainty on HiT, MSR-VTT Full (DVTR Tab. IX).
_base_ = ['_base_/default_runtime.py', '_base_/msrvtt_full_experts.py', '_base_/dvtr_hit.py']

model = dict(
    encoder=dict(experts=dict(appearance=2048, audio=128, motion=1024), max_seconds=32),
    heads=dict(type='PCMEGaussianHead'),
    supervision=dict(type='PCMESupervision'),
)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
