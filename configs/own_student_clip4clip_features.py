# A CLIP4Clip that learns from three, on your stored frame features (docs/recipe.md).
# tools/train.py trains own_clip4clip_features.py with three other seeds, stores their vectors of
# the training set, and trains the student.  Its vectors have the same size as theirs.
_base_ = ['own_clip4clip_features.py']

before = {
    f'member{n}': dict(config='own_clip4clip_features.py', seed=1000 * n, export=True)
    for n in (1, 2, 3)
}
model = dict(
    supervision=dict(
        type='StoredTeachers', teachers={name: '{' + name + '}/teacher' for name in before}
    ),
    losses=dict(distillation=dict(type='KLDistillationLoss', temperature=4.0, loss_weight=4.0)),
)
