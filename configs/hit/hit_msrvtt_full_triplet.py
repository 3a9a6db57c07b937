# HiT with triplets (DVTR Eq. 1, Tab. X) on MSR-VTT Full: one of each level and direction, whose
# negatives are the keys of the bank.
_base_ = ['../hit_msrvtt_full.py']

triplet = dict(type='RankingLoss', margin=0.5)
model = dict(losses=dict(t2v=triplet, v2t=triplet))
