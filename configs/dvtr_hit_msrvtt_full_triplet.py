# DVTR + HiT with the debiased triplet loss (Eq. 12) on MSR-VTT Full: DVTR Tab. X.  Triplets of
# each level and direction, whose negatives are the keys of the bank.
_base_ = ['_base_/default_runtime.py', '_base_/msrvtt_full_experts.py', '_base_/dvtr_hit.py']

model = dict(
    encoder=dict(experts=dict(appearance=2048, audio=128, motion=1024), max_seconds=32),
    losses=dict(t2v=dict(type='RankingLoss', margin=0.5), v2t=dict(type='RankingLoss', margin=0.5)),
)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
