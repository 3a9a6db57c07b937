# Causal intervention on frame length (Sec. 3.3, Algorithm 2, M = 2), HGR on EPIC-KITCHENS-100: one
# HGR learns from clips shorter than the train mean of 172 frames (50,281), one from the others
# (16,936), and their scores are summed.
_base_ = ['hgr_epic.py']

model = dict(_delete_=True, type='BackdoorRetriever', members=[{{_base_.model}}] * 2)
train_dataloader = dict(
    batch_sampler=dict(type='EnvironmentBatchSampler'),
    dataset=dict(environments=dict(type='LengthSplit', parts=2)),
)
custom_hooks = [dict(type='MembersHook')]  # each member alone beside the sum
find_unused_parameters = True  # a step trains one member
