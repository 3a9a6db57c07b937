# DVTR + CLIP2Video on MSR-VTT 1k-A (Tab. III, Sec. V-A.2).
_base_ = [
    '_base_/msrvtt_1ka.py',
    '_base_/schedule_dvtr_5e.py',
    '_base_/dvtr.py',
]
