# A model of two branches that learns from three of ARL on planted clips.
# tools/train.py trains arl_planted_features.py with three other seeds first (docs/recipe.md).
_base_ = ['arl_planted_features.py']

before = {f'member{n}': dict(config='arl_planted_features.py', seed=1000 * n) for n in (1, 2, 3)}
model = dict(
    supervision=dict(
        _delete_=True,
        type='FrozenTeachers',
        members=[
            dict(
                config='{' + name + '}/arl_planted_features.py',
                checkpoint='{' + name + '}/best.pth',
            )
            for name in before
        ],
        temperatures='own',
        encode_once=True,
    ),
    losses=dict(
        distillation=dict(
            type='KLDistillationLoss', temperature=4.0, loss_weight=4.0, reads=('a', 'b')
        )
    ),
)
custom_hooks = [dict(type='mmvtr.MomentsHook')]  # the student has no sets of its own
