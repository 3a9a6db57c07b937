# DVTR + CLIP2Video on MSVD (DVTR Tab. IV).
_base_ = [
    '_base_/default_runtime.py',
    '_base_/msvd.py',
    '_base_/schedule_dvtr_5e.py',
    '_base_/dvtr.py',
]
