# CE+ (TeachText) on MSR-VTT Full.
_base_ = ['_base_/default_runtime.py', '_base_/msrvtt_full.py', '_base_/ce_plus.py']

store = 'data/msrvtt/ce_plus/'
tokens = dict(audio=29, speech=32)
experts = {
    name: dict(path=f'{store}{name}.h5', dim=dim)
    | (dict(max_tokens=tokens[name], seconds=None) if name in tokens else dict(mean=True))
    for name, dim in _base_.model.encoder.experts.items()
}
known = dict(
    video_pipeline=[dict(type='LoadExperts', experts=experts, cut='first')],
    text_pipeline=[
        dict(type='LoadTextFeatures', path=store + 'gpt2-xl-finetuned.h5', max_words=37)
    ],
)
train_dataloader = dict(batch_size=64, dataset=dict(**known, epoch_unit='video'))
val_dataloader = dict(dataset=known)
test_dataloader = dict(dataset=known)
auto_scale_lr = dict(enable=False, base_batch_size=64)
default_hooks = dict(checkpoint=dict(save_best='retrieval/t2v_gmean'))
