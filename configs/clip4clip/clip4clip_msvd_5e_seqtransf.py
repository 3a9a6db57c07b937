# CLIP4Clip (seqTransf) on MSVD with its own schedule.
_base_ = ['clip4clip_msvd_5e.py']

model = dict(encoder=dict(aggregator='transformer', temporal_layers=4))
