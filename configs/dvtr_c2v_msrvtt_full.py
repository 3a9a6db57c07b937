# DVTR + CLIP2Video on MSR-VTT Full (Tab. III).
_base_ = [
    '_base_/msrvtt_full.py',
    '_base_/schedule_dvtr_5e.py',
    '_base_/dvtr.py',
]
