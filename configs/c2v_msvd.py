# CLIP2Video on MSVD: the baseline of dvtr_c2v_msvd.py (DVTR Tab. IV).
_base_ = [
    '_base_/msvd.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip2video.py',
]
