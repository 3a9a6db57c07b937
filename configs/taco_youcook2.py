# TACo on YouCook2, 3,492 validation clips (paper: 3.5k).  Ours: S3D (HowTo100M) alone, as the
# frame-length paper's other methods; the paper has ResNet-152 + I3D, or S3D.  48 rows and 30 tokens
# are its own.  371 epochs of 81 steps are its 30,000.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/youcook2.py',
    '_base_/taco.py',
    '_base_/schedule_taco.py',
]

experts = dict(motion=dict(path='data/youcook2/features/s3d.h5', dim=1024))
annotations = dict(type='mmvtr.YouCook2Dataset', split='train')
known = dict(
    video_pipeline=[dict(type='LoadExperts', experts=experts, max_tokens=48)],
    text_pipeline=[
        dict(type='HFTokenize', model='bert-base-uncased', max_length=30, spans=True),
        dict(type='TokensOfInterest', counted=annotations, length=30),
    ],
)
train_dataloader = dict(batch_size=128, dataset=known)
test_dataloader = dict(dataset=known)

# A row is a second where the store has one a second; a clip of more rows keeps 48 of them.
model = dict(encoder=dict(experts=dict(motion=1024), max_seconds=512))
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=371, val_interval=1)
