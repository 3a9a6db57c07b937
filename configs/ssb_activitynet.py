# SSB on ActivityNet paragraphs with its own max-margin loss: the baseline of
# ncl_ssb_activitynet.py.
_base_ = [
    '_base_/activitynet_features.py',
    '_base_/schedule_ssb_5e.py',
    '_base_/ssb.py',
    '_base_/train_queue.py',
]

model = dict(encoder=dict(dropout=0.0))  # NCL App. C
# As many steps as on MSR-VTT, our choice.
train_cfg = dict(max_epochs=90)
