# CLIP2Video (c2v_features.py) as the members of a causal intervention on frame length (Sec. 3.3):
# one learns from short clips, one from long ones, and their scores are summed.
_base_ = ['c2v_features.py']

model = dict(
    _delete_=True,
    type='mmvtr.BackdoorRetriever',
    members=[
        dict(
            _base_.model,
            losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
        )
    ]
    * 2,
)
custom_hooks = [dict(type='mmvtr.MembersHook')]  # each member alone beside the sum
find_unused_parameters = True  # a step trains one member
