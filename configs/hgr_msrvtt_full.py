# HGR on MSR-VTT Full: 6,513 / 497 / 2,990 videos (frame-length paper, Tab. 9).  There is a
# validation set, and the epoch of its best rsum is tested.
_base_ = ['_base_/default_runtime.py', '_base_/msrvtt_hgr.py', '_base_/hgr.py']

loader = dict(_base_.loader, batch_size=64)
train = dict(split='full_train')
train_dataloader = dict(dataset=train)
val_dataloader = dict(loader, dataset=dict(_base_.common, split='full_val'))
test_dataloader = dict(dataset=dict(split='full_test'))
val_cfg = dict(type='mmvtr.RetrievalLoop')
val_evaluator = [dict(type='mmvtr.RetrievalMetric'), dict(type='mmvtr.RelevanceMetric')]
test_evaluator = [
    *val_evaluator,
    dict(type='mmvtr.LengthBiasMetric', min_gap=1, train=dict(_base_.common, **train)),  # seconds
]

model = dict(
    encoder=dict(
        frames=dict(in_dim=2048),
        text=dict(words=20000, pretrained='data/msrvtt/word_vectors.npy'),
    )
)
