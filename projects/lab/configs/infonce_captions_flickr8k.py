# InfoNCE between captions and items that are captions, too: the baseline of its kind
# (projects/lab/evidence/pages/judged_training.md).  CLIP4Clip's pooling over word vectors in
# the place of frames; both towers begin with the same vectors.
_base_ = ['_base_/captions_flickr8k.py']

model = dict(losses=dict(contrastive=dict(type='ContrastiveLoss')))
