# CLIP2Video on VATEX, HGR's split: the baseline of dvtr_c2v_vatex.py, which says what list the row
# "CLIP2Video" of DVTR Tab. V was tested on.
_base_ = [
    '_base_/vatex.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip2video.py',
]
