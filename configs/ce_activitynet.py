# Collaborative Experts on ActivityNet Captions, paragraphs cut to 49 words.  Their checkpoint is
# the best on val1, which is the test set; here it is the last.
_base_ = ['_base_/default_runtime.py', '_base_/activitynet.py', '_base_/ce.py']

store = 'data/activitynet/ce/'
tokens = dict(audio=4, ocr=6, speech=29)
experts = {
    name: dict(path=f'{store}{name}.h5', dim=dim)
    | (dict(max_tokens=tokens[name], seconds=None) if name in tokens else dict(mean=True))
    for name, dim in _base_.model.encoder.experts.items()
}
known = dict(
    video_pipeline=[dict(type='LoadExperts', experts=experts, cut='first')],
    text_pipeline=[dict(type='LoadTextFeatures', path=store + 'words.h5', max_words=49)],
)
train_dataloader = dict(batch_size=32, dataset=dict(**known))
test_dataloader = dict(dataset=known)

model = dict(
    encoder=dict(clusters=dict(audio=6, ocr=44, speech=100), text_clusters=39, text_ghosts=0),
    losses=dict(ranking=dict(margin=0.0605)),
)
train_cfg = dict(max_epochs=150)
auto_scale_lr = dict(enable=False, base_batch_size=32)
default_hooks = dict(checkpoint=dict(save_best='retrieval/t2v_gmean'))
