# Causal intervention on frame length over RAN, YouCook2 (Tab. 2 and 3); the split is that of
# causal_hgr_youcook2.py.
_base_ = ['ran_hgr_youcook2.py']

model = dict(_delete_=True, type='BackdoorRetriever', members=[{{_base_.model}}] * 2)
train_dataloader = dict(
    batch_sampler=dict(type='EnvironmentBatchSampler'),
    dataset=dict(
        environments=dict(type='LengthSplit', parts=2, share=8000 / 10337, unit='seconds')
    ),
)
custom_hooks = [dict(type='MembersHook')]  # each member alone beside the sum
find_unused_parameters = True  # a step trains one member
