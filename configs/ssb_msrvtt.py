# SSB on MSR-VTT 1k-A with its own max-margin loss: the baseline of ncl_ssb_msrvtt.py.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/msrvtt_1ka_features.py',
    '_base_/ssb.py',
    '_base_/train_queue.py',
]

model = dict(
    losses=dict(triplet=dict(type='RankingLoss', negatives='all', margin=0.2, loss_weight=128.0))
)
