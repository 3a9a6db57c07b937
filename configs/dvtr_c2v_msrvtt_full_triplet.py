# DVTR's debiased triplet loss (Eq. 12) on MSR-VTT Full: Tab. X, whose rows are of HiT.
_base_ = ['dvtr_c2v_msrvtt_full.py']

model = dict(
    losses=dict(
        _delete_=True, triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.5)
    )
)
