# DVTR + CLIP2Video on ActivityNet paragraphs (DVTR Tab. VI).
# 64 frames, 64 words (docs/data.md): CLIP2Video's position table has 77 rows.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/activitynet.py',
    '_base_/schedule_clip_5e.py',
    '_base_/dvtr.py',
]
