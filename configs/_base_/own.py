# Videos and captions of your own: a table beside a folder of videos (docs/own_data.md).
#     --cfg-options table=my.csv videos=my_clips
own = dict(
    type='mmvtr.TableDataset',
    table='data/own/captions.csv',
    videos='data/own/videos',
    columns=dict(video='video', text='text'),
    fractions=dict(train=0.7, val=0.1, test=0.2),  # of a table without a column 'split'
    seed=0,
    missing='raise',
    read_durations=True,
    video_pipeline=[
        dict(type='LoadVideo', sampling='per_second', num_frames=12),
        dict(type='ResizeShortSide', size=224),
        dict(type='CenterCrop', size=224),
    ],
    text_pipeline=[dict(type='CLIPTokenize', context_length=77)],  # all that CLIP's tower reads
)
loader = dict(num_workers=4, collate_fn=dict(type='mmvtr.collate_retrieval'))

train_dataloader = dict(
    **loader,
    batch_size=16,  # pairs; an epoch of fewer is one batch
    persistent_workers=True,
    sampler=dict(type='mmvtr.EpochSampler'),
    dataset=dict(**own, split='train'),
)
val_dataloader = dict(**loader, batch_size=16, dataset=dict(**own, split='val'))
test_dataloader = dict(**loader, batch_size=16, dataset=dict(**own, split='test'))
val_cfg = test_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = test_evaluator = [dict(type='mmvtr.RetrievalMetric')]

# One name on the command line for what all sets share.
everywhere = ['own', *(f'{split}_dataloader.dataset' for split in ('train', 'val', 'test'))]
shortcuts = dict(
    table=[f'{one}.table' for one in everywhere],
    videos=[f'{one}.videos' for one in everywhere],
    columns=[f'{one}.columns' for one in everywhere],
    fractions=[f'{one}.fractions' for one in everywhere],
    split_seed=[f'{one}.seed' for one in everywhere],
    missing=[f'{one}.missing' for one in everywhere],
    on_broken=[f'{one}.on_broken' for one in everywhere],
    batch=['train_dataloader.batch_size', 'auto_scale_lr.base_batch_size'],
)
