# CLIP2Video with the triplet loss (DVTR Eq. 1, margin of Tab. XII) on MSR-VTT 1k-A: the baseline of
# dvtr_c2v_msrvtt_triplet.py.
_base_ = [
    '_base_/msrvtt_1ka.py',
    '_base_/schedule_clip_5e.py',
    '_base_/c2v_vitb16.py',
]

model = dict(losses=dict(triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.5)))
