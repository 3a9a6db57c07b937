# SSB on MSR-VTT 1k-A with its own max-margin loss: the baseline of ncl_ssb_msrvtt.py.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/msrvtt_1ka_features.py',
    '_base_/schedule_clip_5e.py',
    '_base_/ssb.py',
]

# VSE++ sums over the batch and both directions, RankingLoss takes means of both: 2 x 64.  NCL's
# factor of 15, which is to match the scale of SSB's margin loss, points to such a sum (App. C); it
# is our reading, not stated.  The margin is VSE++'s.
model = dict(
    losses=dict(
        triplet=dict(type='RankingLoss', negatives='hardest', margin=0.2, loss_weight=128.0)
    )
)
# Our choice: one learning rate for all, as T5 and the new parts are tuned together.
optim_wrapper = dict(
    optimizer=dict(_delete_=True, type='Adam', lr=5e-5), paramwise_cfg=dict(_delete_=True)
)
auto_scale_lr = dict(base_batch_size=64)
