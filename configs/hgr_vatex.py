# HGR on VATEX (DVTR Tab. V, UATVR Tab. 7), its own split and the official I3D features, 1,024 wide.
# The epoch of the best rsum on val is tested.
_base_ = ['_base_/default_runtime.py', '_base_/vatex.py', '_base_/hgr.py']

known = dict(
    video_pipeline=[
        dict(type='LoadFeatures', path='data/vatex/features/i3d.h5'),
        dict(type='TrimFeatures', num_frames=20),
    ],
    text_pipeline=[
        dict(
            type='PartOfSpeechGraph',
            vocab_file='data/vatex/word2int.json',
            method='rules',
            links=True,
        )
    ],
)
train_dataloader = dict(batch_size=64, dataset=known)
val_dataloader = test_dataloader = dict(dataset=known)
model = dict(
    encoder=dict(
        frames=dict(in_dim=1024),
        text=dict(words=20000, pretrained='data/vatex/word_vectors.npy'),
    )
)
