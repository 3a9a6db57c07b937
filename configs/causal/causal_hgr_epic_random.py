# The control of causal_hgr_epic.py: parts of the same sizes, drawn at random.
_base_ = ['../causal_hgr_epic.py']

random = dict(_delete_=True, type='RandomSplit', like=dict(type='LengthSplit', parts=2))
train_dataloader = dict(dataset=dict(records=dict(environments=random)))
shortcuts = dict(parts=['model.copies', 'train_dataloader.dataset.records.environments.like.parts'])
