# SSB on MSR-VTT 1k-A with its own max-margin loss: the baseline of ncl_ssb_msrvtt.py.
_base_ = [
    '_base_/msrvtt_1ka_features.py',
    '_base_/schedule_ssb_5e.py',
    '_base_/ssb.py',
    '_base_/train_queue.py',
]
