# CLIP4Clip (seqTransf) on MSVD: row "CLIP4Clip" of DVTR Tab. IV and UATVR Tab. 9.
_base_ = ['clip4clip_msvd_5e.py']

model = dict(encoder=dict(aggregator='transformer', temporal_layers=4))
