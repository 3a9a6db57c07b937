# Causal intervention on frame length, HGR on YouCook2.  The paper's parts are 8,000 and 2,337 clips
# (App. C.1), which no mean length gives: the shortest 8,000 last at most 27 s.
_base_ = ['hgr_youcook2.py']

model = dict(_delete_=True, type='BackdoorRetriever', members=[{{_base_.model}}] * 2)
train_dataloader = dict(
    batch_sampler=dict(type='EnvironmentBatchSampler'),
    dataset=dict(
        environments=dict(type='LengthSplit', parts=2, share=8000 / 10337, unit='seconds')
    ),
)
custom_hooks = [dict(type='MembersHook')]  # each member alone beside the sum
find_unused_parameters = True  # a step trains one member
