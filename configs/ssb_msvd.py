# SSB on MSVD with its own max-margin loss: the baseline of ncl_ssb_msvd.py.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/msvd_features.py',
    '_base_/ssb.py',
    '_base_/train_queue.py',
]

model = dict(
    losses=dict(triplet=dict(type='RankingLoss', negatives='all', margin=0.2, loss_weight=128.0))
)

# As many steps as on MSR-VTT, our choice.
train_cfg = dict(max_epochs=18)
