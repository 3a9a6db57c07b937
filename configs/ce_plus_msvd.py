# CE+ (TeachText) on MSVD: five experts, each a mean.
_base_ = ['_base_/default_runtime.py', '_base_/msvd.py', '_base_/ce_plus.py']

five = {k: v for k, v in _base_.model.encoder.experts.items() if k not in ('audio', 'speech')}
store = 'data/msvd/ce_plus/'
experts = {name: dict(path=f'{store}{name}.h5', dim=dim, mean=True) for name, dim in five.items()}
known = dict(
    video_pipeline=[dict(type='LoadExperts', experts=experts, cut='first')],
    text_pipeline=[
        dict(type='LoadTextFeatures', path=store + 'gpt2-xl-finetuned.h5', max_words=30)
    ],
)
train_dataloader = dict(batch_size=16, dataset=dict(**known, epoch_unit='video'))
val_dataloader = dict(dataset=known)
test_dataloader = dict(dataset=known)

model = dict(
    encoder=dict(
        experts=dict(_delete_=True, **five),
        clusters=dict(_delete_=True),
        text_clusters=12,
        text_ghosts=0,
    ),
    losses=dict(ranking=dict(margin=0.3076)),
)
train_cfg = dict(max_epochs=300)
auto_scale_lr = dict(enable=False, base_batch_size=16)
default_hooks = dict(checkpoint=dict(save_best='retrieval/t2v_gmean'))
