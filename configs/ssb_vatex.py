# SSB on VATEX with its own max-margin loss (DVTR Tab. V), from the features that it has elsewhere
# (NCL App. C).  Ours: 32 words, and about as many steps as on MSR-VTT.
_base_ = ['_base_/default_runtime.py', '_base_/vatex.py', '_base_/ssb.py']

store = 'data/vatex/features/'
known = dict(
    video_pipeline=[
        dict(
            type='LoadFeatures', path=[store + 'r2plus1d.h5', store + 'resnet152.h5'], num_frames=30
        )
    ],
    text_pipeline=[dict(type='HFTokenize', model='t5-base', max_length=32)],
)
train_dataloader = dict(batch_size=64, dataset=known)
val_dataloader = test_dataloader = dict(dataset=known)
model = dict(
    losses=dict(triplet=dict(type='RankingLoss', negatives='all', margin=0.2, loss_weight=128.0))
)
train_cfg = dict(max_epochs=3)
