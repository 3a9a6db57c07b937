# CLIP2Video with the triplet loss (DVTR Eq. 1, margin of Tab. XII) on MSR-VTT 1k-A: the baseline of
# dvtr_c2v_msrvtt_triplet.py.
_base_ = ['../c2v_msrvtt.py']

model = dict(
    losses=dict(
        _delete_=True,
        triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.5),
    ),
    temperature=dict(_delete_=True, type='Temperature', init=0.07),
)
custom_hooks = []
