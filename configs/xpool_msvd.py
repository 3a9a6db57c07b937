# X-Pool on MSVD.  The rate of what is new, 1e-5, and the dropout, .4, are those of the command
# in the authors' repository, and so are 12 frames, each the middle one of its twelfth.  Ours: 32
# tokens, the centre crop in training as well, and val chooses the checkpoint (theirs is chosen on
# the test set).
_base_ = ['_base_/default_runtime.py', '_base_/msvd.py', '_base_/xpool_vitb32.py']

middle = [
    dict(type='LoadVideo', sampling='segment_centre', num_frames=12),
    dict(type='ResizeShortSide', size=224),
    dict(type='CenterCrop', size=224),
]
model = dict(similarity=dict(dropout=0.4))
train_dataloader = dict(batch_size=32, dataset=dict(video_pipeline=middle))
val_dataloader = dict(dataset=dict(video_pipeline=middle))
test_dataloader = dict(dataset=dict(video_pipeline=middle))
