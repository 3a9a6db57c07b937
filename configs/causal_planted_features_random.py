# The control of causal_planted_features.py: parts of the same sizes, drawn at random.
_base_ = ['causal_planted_features.py']

train_dataloader = dict(
    dataset=dict(
        environments=dict(_delete_=True, type='RandomSplit', like=dict(type='LengthSplit', parts=2))
    )
)
