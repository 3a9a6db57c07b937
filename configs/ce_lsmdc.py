# Collaborative Experts on LSMDC (DVTR Tab. VII): faces of 128 numbers, words as word2vec.
_base_ = ['_base_/default_runtime.py', '_base_/lsmdc.py', '_base_/ce.py']

widths = {**_base_.model.encoder.experts, 'face': 128}
store = 'data/lsmdc/ce/'
tokens = dict(audio=11, ocr=6, speech=35)
experts = {
    name: dict(path=f'{store}{name}.h5', dim=dim)
    | (dict(max_tokens=tokens[name], seconds=None) if name in tokens else dict(mean=True))
    for name, dim in widths.items()
}
known = dict(
    video_pipeline=[dict(type='LoadExperts', experts=experts, cut='first')],
    text_pipeline=[dict(type='LoadTextFeatures', path=store + 'words.h5', max_words=36)],
)
train_dataloader = dict(batch_size=256, dataset=dict(**known, epoch_unit='video'))
val_dataloader = dict(dataset=known)
test_dataloader = dict(dataset=known)

model = dict(
    encoder=dict(
        text=dict(in_dim=300),
        experts=dict(face=128),
        clusters=dict(audio=3, ocr=30, speech=5),
        text_clusters=43,
        text_ghosts=0,
    ),
    losses=dict(ranking=dict(margin=0.1213)),
)
optim_wrapper = dict(optimizer=dict(lr=0.01))
train_cfg = dict(max_epochs=15)
auto_scale_lr = dict(enable=False, base_batch_size=256)
default_hooks = dict(checkpoint=dict(save_best='retrieval/t2v_gmean'))
