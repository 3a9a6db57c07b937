# A student of three HiT models on MSR-VTT Full: their encoder, InfoNCE over the batch and their
# scores, without a bank and key encoders.
# tools/train.py trains hit_msrvtt_full.py with three other seeds first (docs/recipe.md).
_base_ = ['hit_msrvtt_full.py']

before = {f'member{n}': dict(config='hit_msrvtt_full.py', seed=1000 * n) for n in (1, 2, 3)}
model = dict(
    _delete_=True,
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=_base_.model.data_preprocessor,
    encoder=_base_.model.encoder,
    similarity=_base_.model.similarity,
    temperature=_base_.model.temperature,
    supervision=dict(
        type='FrozenTeachers',
        members=[
            dict(config='{' + name + '}/hit_msrvtt_full.py', checkpoint='{' + name + '}/best.pth')
            for name in before
        ],
        temperatures='own',
    ),
    losses=dict(
        contrastive=dict(type='ContrastiveLoss', reads=('feature', 'semantic'), loss_weight=2.0),
        distillation=dict(type='KLDistillationLoss', temperature=4.0, loss_weight=4.0),
    ),
)
custom_hooks = []
