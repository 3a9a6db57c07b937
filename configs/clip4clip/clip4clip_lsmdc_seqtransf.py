# CLIP4Clip (seqTransf) on LSMDC: a transformer of 4 layers from CLIP's text tower.
_base_ = ['../clip4clip_lsmdc.py']

model = dict(encoder=dict(aggregator='transformer', temporal_layers=4))
