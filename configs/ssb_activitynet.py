# SSB on ActivityNet paragraphs with its own max-margin loss: the baseline of
# ncl_ssb_activitynet.py.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/activitynet_features.py',
    '_base_/ssb.py',
    '_base_/train_queue.py',
]
# The field tests on val1 and validates on nothing: the last epoch is tested here, nothing is chosen
# on the test set.

model = dict(encoder=dict(dropout=0.0))  # NCL App. C
# As many steps as on MSR-VTT, our choice.
train_cfg = dict(max_epochs=90)
