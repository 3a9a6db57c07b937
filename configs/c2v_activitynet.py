# CLIP2Video on ActivityNet paragraphs: the baseline of dvtr_c2v_activitynet.py.  64 frames and
# words.  DVTR Tab. VI has no such row.
_base_ = [
    '_base_/activitynet.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip2video.py',
]
