# A UATVR that learns from three on planted clips.
# tools/train.py trains uatvr_planted_features.py with three other seeds first (docs/recipe.md).
_base_ = ['uatvr_planted_features.py']

before = {f'member{n}': dict(config='uatvr_planted_features.py', seed=1000 * n) for n in (1, 2, 3)}
model = dict(
    supervision=dict(
        type='FrozenTeachers',
        members=[
            dict(
                config='{' + name + '}/uatvr_planted_features.py',
                checkpoint='{' + name + '}/best.pth',
            )
            for name in before
        ],
        temperatures='own',
        encode_once=True,
    ),
    losses=dict(distillation=dict(type='KLDistillationLoss', temperature=4.0, loss_weight=4.0)),
)
