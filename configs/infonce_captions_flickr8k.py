# InfoNCE between captions and items that are captions, too: the baseline of its kind
# (projects/evidence/pages/judged_training.md).  CLIP4Clip's pooling over word vectors in
# the place of frames; both towers begin with the same vectors.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/schedule_captions.py',
    '_base_/captions_flickr8k.py',
]

model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='CLIP4Clip',
        frames=dict(type='FeatureFrames', in_dim=128, dim=128, identity=True),
        text=dict(type='WordVectors', words=2179, dim=128, pretrained=_base_.words + '/words.npy'),
    ),
    similarity=dict(type='CosineSimilarity'),
    temperature=dict(type='Temperature', init=0.07),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)
