# Collaborative Experts on DiDeMo, paragraphs cut to 48 words.
_base_ = ['_base_/default_runtime.py', '_base_/didemo.py', '_base_/ce.py']

store = 'data/didemo/ce/'
tokens = dict(audio=23, ocr=8, speech=48)
experts = {
    name: dict(path=f'{store}{name}.h5', dim=dim)
    | (dict(max_tokens=tokens[name], seconds=None) if name in tokens else dict(mean=True))
    for name, dim in _base_.model.encoder.experts.items()
}
known = dict(
    video_pipeline=[dict(type='LoadExperts', experts=experts, cut='first')],
    text_pipeline=[dict(type='LoadTextFeatures', path=store + 'words.h5', max_words=48)],
)
train_dataloader = dict(batch_size=64, dataset=dict(**known))
val_dataloader = dict(dataset=known)
test_dataloader = dict(dataset=known)

model = dict(
    encoder=dict(clusters=dict(audio=16, ocr=13, speech=55), text_clusters=8, text_ghosts=0),
    losses=dict(ranking=dict(margin=0.1664)),
)
train_cfg = dict(max_epochs=30)
auto_scale_lr = dict(enable=False, base_batch_size=64)
default_hooks = dict(checkpoint=dict(save_best='retrieval/t2v_gmean'))
