# Causal intervention on frame length with NCL's loss (Eq. 4 on Eq. 12) in its members: no paper has
# both.  A train queue is of one model, so only the transductive biases stand beside the raw scores.
_base_ = ['causal_planted_features.py']

losses = dict(
    contrastive=dict(type='NormalizedContrastiveLoss', reads=('global', 'aligned'), iterations=4)
)
model = dict(members=[{**_base_.model.members[0], 'losses': losses}] * 2)
custom_hooks = [dict(type='mmvtr.MembersHook'), dict(type='mmvtr.SinkhornHook', queries='test')]
