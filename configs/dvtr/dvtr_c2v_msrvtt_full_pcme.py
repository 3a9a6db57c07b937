# DVTR on MSR-VTT Full with PCME's match probability as the uncertainty (Tab. IX).
_base_ = ['../dvtr_c2v_msrvtt_full.py']

model = dict(heads=dict(type='PCMEGaussianHead'), supervision=dict(type='PCMESupervision'))
