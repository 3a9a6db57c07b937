# CLIP4Clip (meanP) on ActivityNet paragraphs with its own 5 epochs (DVTR Tab. VI), tested without
# NCL's queue.  clip4clip_activitynet.py has the 10 epochs that NCL found on val (App. B).
_base_ = ['clip4clip_activitynet.py']

custom_hooks = []
train_cfg = dict(max_epochs=5)
