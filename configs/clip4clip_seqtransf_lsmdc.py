# CLIP4Clip (seqTransf) on LSMDC: row "CLIP4Clip" of DVTR Tab. VII.
_base_ = ['clip4clip_lsmdc.py']

model = dict(encoder=dict(aggregator='transformer', temporal_layers=4))
