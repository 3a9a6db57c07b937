# DVTR + HiT with the debiased triplet loss (Eq. 12) on MSR-VTT Full: DVTR Tab. X.  Triplets of
# each level and direction, whose negatives are the keys of the bank.
_base_ = ['dvtr_hit_msrvtt_full.py']

model = dict(
    losses=dict(
        _delete_=True,
        t2v=dict(
            type='RankingLoss',
            reads=('feature_t2v', 'semantic_t2v'),
            margin=0.5,
            direction='t2v',
            loss_weight=2.0,
        ),
        v2t=dict(
            type='RankingLoss',
            reads=('feature_v2t', 'semantic_v2t'),
            margin=0.5,
            direction='v2t',
            loss_weight=2.0,
        ),
    )
)
