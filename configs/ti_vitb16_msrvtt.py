# Token-wise matching of words and frames on MSR-VTT 1k-A: row "TI" of UATVR Tab. 1 as its Eq. 7 is
# printed, means over tokens.  The row that the paper trained has learnt token weights as well:
# 162.8 M parameters in its Tab. 2, here 162.3 M, which is the transformer (docs/uatvr.md).
_base_ = ['dsa_vitb16_msrvtt.py']

model = dict(encoder=dict(extra_frames=0, extra_words=0))  # Eq. 7
