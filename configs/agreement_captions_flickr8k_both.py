# Agreement in both directions.
_base_ = ['agreement_captions_flickr8k.py']

model = dict(losses=dict(contrastive=dict(weighted='both')))
