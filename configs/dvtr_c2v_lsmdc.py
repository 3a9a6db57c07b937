# DVTR + CLIP2Video on LSMDC (DVTR Tab. VII).
_base_ = [
    '_base_/lsmdc.py',
    '_base_/schedule_dvtr_5e.py',
    '_base_/dvtr.py',
]
