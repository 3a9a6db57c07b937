# UATVR over CLIP ViT-B/32 with the parts that its tables were measured with.  They are not printed,
# but Tab. 2 counts them, and the official code has them: an MLP each that weighs words and frames
# in Eq. 7-8 (.5 M parameters: 162.8 M with TI, against 162.3 M of CLIP4Clip), and PCME's attention
# heads in place of Eq. 9 (2.1 M: 164.9 M with DUA).
_base_ = ['uatvr_printed_vitb32.py']

model = dict(
    similarity=dict(weights='uatvr', dim=512),
    heads=dict(type='PCMEGaussianHead'),
)
