# CLIP4Clip (meanP) on ActivityNet paragraphs: its own 5 epochs (DVTR Tab. VI), tested without NCL's
# queue.
_base_ = ['../clip4clip_activitynet.py']

train_cfg = dict(max_epochs=5)
custom_hooks = []
