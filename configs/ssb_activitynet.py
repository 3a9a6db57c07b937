# SSB on ActivityNet paragraphs with its own max-margin loss: the baseline of
# ncl_ssb_activitynet.py.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/activitynet_features.py',
    '_base_/ssb.py',
    '_base_/train_queue.py',
]

model = dict(
    losses=dict(triplet=dict(type='RankingLoss', negatives='all', margin=0.2, loss_weight=128.0)),
    encoder=dict(dropout=0.0),
)  # NCL App. C
# As many steps as on MSR-VTT, our choice.
train_cfg = dict(max_epochs=90)
