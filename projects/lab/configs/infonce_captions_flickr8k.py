# InfoNCE between captions and items that are captions themselves: the baseline of these configs
# (projects/lab/evidence/pages/judged_training.md). CLIP4Clip's pooling over word vectors instead of
# frames; both towers start from the same vectors.
_base_ = ['_base_/captions_flickr8k.py']

model = dict(losses=dict(contrastive=dict(type='ContrastiveLoss')))
