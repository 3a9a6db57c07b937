# DVTR with PCME's match probability as its uncertainty on CLIP2Video, MSR-VTT Full (Tab. IX).
_base_ = ['dvtr_c2v_msrvtt_full.py']

model = dict(heads=dict(type='PCMEGaussianHead'), supervision=dict(type='PCMESupervision'))
