# CLIP2Video on LSMDC: the baseline of dvtr_c2v_lsmdc.py.  DVTR Tab. VII has no such row.
_base_ = [
    '_base_/lsmdc.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip2video.py',
]
