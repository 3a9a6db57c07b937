# EgoNCE on EPIC-KITCHENS-100 with scene-aware negatives (EgoVLP Sec. 3.2): 64 clips a batch, each
# joined by another one of its recording that begins within a minute.  An epoch has twice the steps.
_base_ = ['../egonce_clip_epic.py']

train_dataloader = dict(batch_sampler=dict(type='mmvtr.SceneBatchSampler', window=60.0))
