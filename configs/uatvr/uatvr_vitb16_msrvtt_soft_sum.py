# Row "+ KL*" of UATVR's Tab. 1 with the soft contrast summed over the pairs of a batch, as PCME's
# code has it (docs/uatvr.md).
_base_ = ['uatvr_vitb16_msrvtt_soft.py']

model = dict(objectives=dict(dua=dict(reduction='sum')))
