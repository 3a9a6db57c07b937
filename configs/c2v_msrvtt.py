# CLIP2Video on MSR-VTT 1k-A: the baseline of dvtr_c2v_msrvtt.py and ncl_c2v_msrvtt.py.
_base_ = [
    '_base_/msrvtt_1ka.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip2video.py',
    '_base_/train_queue.py',
]
