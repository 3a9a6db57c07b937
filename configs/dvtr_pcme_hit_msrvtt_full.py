# DVTR with PCME's match probability as its uncertainty on HiT, MSR-VTT Full (DVTR Tab. IX).
_base_ = ['dvtr_hit_msrvtt_full.py']

model = dict(heads=dict(type='PCMEGaussianHead'), supervision=dict(type='PCMESupervision'))
