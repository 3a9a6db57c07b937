# Features of your own videos, as mmvtr extract_features writes them: as own.py, but `videos` is
# their folder, or one hdf5 file.
_base_ = ['own.py']

known = dict(
    videos='data/own/features',
    video_pipeline=[dict(type='LoadFeatures', path='data/own/features', num_frames=12)],
)
own = known
train_dataloader = dict(dataset=known)
val_dataloader = dict(dataset=known)
test_dataloader = dict(dataset=known)

everywhere = ['own', *(f'{split}_dataloader.dataset' for split in ('train', 'val', 'test'))]
shortcuts = dict(
    videos=[f'{one}.{key}' for one in everywhere for key in ('videos', 'video_pipeline.0.path')]
)
