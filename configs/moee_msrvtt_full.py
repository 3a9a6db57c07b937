# MoEE (Miech et al., 2018) on MSR-VTT Full, as CE's released code trains it.
_base_ = ['ce_msrvtt_full.py']

tokens = dict(audio=17, ocr=3, speech=32)
experts = {
    name: expert | (dict(max_tokens=tokens[name]) if name in tokens else {})
    for name, expert in _base_.experts.items()
}
known = dict(
    video_pipeline=[dict(type='LoadExperts', experts=experts, cut='first')],
    text_pipeline=[dict(type='LoadTextFeatures', path=_base_.store + 'words.h5', max_words=19)],
)
train_dataloader = dict(dataset=known)
val_dataloader = dict(dataset=known)
test_dataloader = dict(dataset=known)

model = dict(
    encoder=dict(
        clusters=dict(audio=27, ocr=20, speech=45),
        text_clusters=50,
        text_ghosts=2,
        gating=None,
        dim=None,
    ),
    losses=dict(ranking=dict(margin=0.1264)),
)
