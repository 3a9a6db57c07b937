# Collaborative Experts on MSVD (DVTR Tab. IV), which has neither audio nor speech.
_base_ = ['_base_/default_runtime.py', '_base_/msvd.py', '_base_/ce.py']

seven = {k: v for k, v in _base_.model.encoder.experts.items() if k not in ('audio', 'speech')}
store = 'data/msvd/ce/'
tokens = dict(ocr=30)
experts = {
    name: dict(path=f'{store}{name}.h5', dim=dim)
    | (dict(max_tokens=tokens[name], seconds=None) if name in tokens else dict(mean=True))
    for name, dim in seven.items()
}
known = dict(
    video_pipeline=[dict(type='LoadExperts', experts=experts, cut='first')],
    text_pipeline=[dict(type='LoadTextFeatures', path=store + 'words.h5', max_words=30)],
)
train_dataloader = dict(batch_size=16, dataset=dict(**known, epoch_unit='video'))
val_dataloader = dict(dataset=known)
test_dataloader = dict(dataset=known)

model = dict(
    encoder=dict(
        experts=dict(_delete_=True, **seven),
        clusters=dict(_delete_=True, ocr=75),
        text_clusters=12,
        text_ghosts=0,
    ),
    losses=dict(ranking=dict(margin=0.3076)),
)
optim_wrapper = dict(optimizer=dict(lr=0.01, weight_decay=5e-5))
train_cfg = dict(max_epochs=300)
auto_scale_lr = dict(enable=False, base_batch_size=16)
default_hooks = dict(checkpoint=dict(save_best='retrieval/t2v_gmean'))
