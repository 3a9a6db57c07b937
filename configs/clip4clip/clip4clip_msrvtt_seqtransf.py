# CLIP4Clip (seqTransf) on MSR-VTT 1k-A: a transformer of 4 layers from CLIP's text tower.
_base_ = ['../clip4clip_msrvtt.py']

model = dict(encoder=dict(aggregator='transformer', temporal_layers=4))
