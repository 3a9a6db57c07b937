# CLIP2Video on MSR-VTT Full: the baseline of dvtr_c2v_msrvtt_full.py (DVTR Tab. III).
_base_ = [
    '_base_/msrvtt_full.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip2video.py',
]
