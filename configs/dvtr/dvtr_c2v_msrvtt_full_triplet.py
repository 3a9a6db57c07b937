# DVTR with the debiased triplet loss (Eq. 12, margin .5: Sec. V-A.2, Tab. X and XII) on MSR-VTT
# Full.
_base_ = ['../dvtr_c2v_msrvtt_full.py']

model = dict(
    losses=dict(
        _delete_=True,
        triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.5),
    )
)
