# How MS-SL and its followers train and test partially relevant retrieval: a batch is 128 videos
# with all of their texts.  A dataset's file adds its class and its stored features.
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
