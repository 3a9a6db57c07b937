# HGR on EPIC-KITCHENS-100 without audio: RGB and flow (Tab. 6), of TBN's RGB, flow and
# audio, 1,024 each.
_base_ = ['hgr_epic.py']

load, trim = _base_.frames
frames = [dict(load, columns=[(0, 2048)]), trim]
train_dataloader = dict(dataset=dict(video_pipeline=frames))
test_dataloader = dict(dataset=dict(video_pipeline=frames))
model = dict(encoder=dict(frames=dict(in_dim=2048)))
