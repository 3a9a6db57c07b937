# DVTR on HiT on MSR-VTT Full with PCME's match probability as the uncertainty (Tab. IX).
_base_ = ['../dvtr_hit_msrvtt_full.py']

model = dict(heads=dict(type='PCMEGaussianHead'), supervision=dict(type='PCMESupervision'))
