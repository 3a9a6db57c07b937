# CLIP4Clip (meanP) on LSMDC.  DVTR Tab. VII has seqTransf: clip4clip/clip4clip_lsmdc_seqtransf.py.
_base_ = [
    '_base_/lsmdc.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip4clip_vitb32.py',
]

model = dict(losses=dict(contrastive=dict(type='ContrastiveLoss')))
