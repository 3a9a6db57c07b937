# NeighborRetr (Lin et al., CVPR 2025) on the towers of CLIP4Clip (docs/neighborretr.md).  Values
# are those of the official code's arguments, but for the learning rate of CLIP
# (schedule_clip_5e.py).  Its global level merges tokens; here it is CLIP4Clip's mean.  Control:
# clip4clip_msrvtt.py.
_base_ = ['clip4clip_msrvtt.py']

model = dict(
    similarity=dict(type='TokenVectorSimilarity'),
    supervision=dict(type='HubSupervision', dim=512),
    losses=dict(contrastive=dict(type='NeighborRetrLoss')),
)
# No queue of train queries: each is all its words here, 1 GB of them in a checkpoint.
custom_hooks = [dict(type='mmvtr.ScoresFileHook')]
