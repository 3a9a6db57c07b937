# HGR on EPIC-KITCHENS-100 without spatial features: flow and audio (Tab. 6), of TBN's RGB, flow and
# audio, 1,024 each.
_base_ = ['hgr_epic.py']

load, trim = _base_.frames
frames = [dict(load, columns=[(1024, 3072)]), trim]
train_dataloader = dict(dataset=dict(video_pipeline=frames))
test_dataloader = dict(dataset=dict(video_pipeline=frames))
model = dict(encoder=dict(frames=dict(in_dim=2048)))
