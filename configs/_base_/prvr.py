# How MS-SL and its followers train and test partially relevant retrieval: a batch is 128 videos
# with all of their texts; BertAdam, 100 epochs, warm-up over 1 %, then linear.  They stop after 10
# epochs without progress on the set that they test on; here all 100 are run.  A dataset's file adds
# its class and its stored features.
loader = dict(num_workers=4, batch_size=128, collate_fn=dict(type='mmvtr.collate_retrieval'))

train_dataloader = dict(
    **loader,
    persistent_workers=True,
    sampler=dict(type='mmvtr.EpochSampler'),
    dataset=dict(split='train', epoch_unit='video_with_all_texts'),
)
test_dataloader = dict(**loader, dataset=dict(split='test'))
test_cfg = dict(type='mmvtr.RetrievalLoop')
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric', recall_at=(1, 5, 10, 100), v2t_protocols=()),
    dict(type='mmvtr.MomentRatioMetric'),
]
# The field chooses its epoch on the set that it tests on; here the last epoch is tested.

optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmvtr.MatrixDecayConstructor',
    optimizer=dict(type='mmvtr.BertAdam', lr=2.5e-4, weight_decay=0.01),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=100, val_interval=1)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, end=1, convert_to_iter_based=True),
    dict(type='PolyLR', power=1.0, begin=1, convert_to_iter_based=True),
]
auto_scale_lr = dict(enable=False, base_batch_size=128)  # videos a step, over all processes
