# DVTR's debiased triplet loss on MSR-VTT 1k-A: Eq. 12 with margin .5 (Sec. V-A.2, Tab. XII).
_base_ = ['dvtr_c2v_msrvtt.py']

model = dict(
    losses=dict(
        _delete_=True, triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.5)
    )
)
