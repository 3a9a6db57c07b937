# Causal intervention on frame length (Sec. 3.3, Algorithm 2) over any config: one copy of its model
# for each part of the training set, scores summed.
#     _base_ = ['CONFIG.py', '_base_/causal.py']
#     model = dict(_delete_=True, type='mmvtr.BackdoorRetriever', member=_base_.model, copies=2)
#     train_dataloader = _base_.by_length
by_length = dict(
    # Batches of one environment at a time.
    batch_sampler=dict(type='mmvtr.EnvironmentBatchSampler'),
    dataset=dict(records=dict(environments=dict(type='LengthSplit', parts=2))),  # at the train mean
)
custom_hooks = [dict(type='mmvtr.MembersHook')]  # each member alone beside the sum
find_unused_parameters = True  # a step trains one member
# `--cfg-options parts=3`: members and parts alike (Tab. 4).
shortcuts = dict(parts=['model.copies', 'train_dataloader.dataset.records.environments.parts'])
