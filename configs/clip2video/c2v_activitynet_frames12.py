# CLIP2Video on ActivityNet with 12 frames and 32 words: what DVTR states for this model on all sets
# (Sec. V-A.2).
_base_ = ['../c2v_activitynet.py']

frames = [dict(_base_.frames[0], num_frames=12), *_base_.frames[1:]]
words = [dict(type='CLIPTokenize', context_length=32)]
train_dataloader = dict(dataset=dict(video_pipeline=frames, text_pipeline=words))
test_dataloader = dict(dataset=dict(video_pipeline=frames, text_pipeline=words))
