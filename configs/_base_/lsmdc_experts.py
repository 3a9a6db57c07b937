# LSMDC from the stored features of experts, for HiT (DVTR Sec. V-A.2): 30 rows an expert, 25
# tokens.  Widths are those of the networks; ours: a row every second.
_base_ = ['lsmdc.py']

store = 'data/lsmdc/features/'
experts = dict(
    appearance=dict(path=store + 'appearance.h5', dim=2048),  # SENet-154, ImageNet
    audio=dict(path=store + 'audio.h5', dim=128),  # VGGish
    motion=dict(path=store + 'motion.h5', dim=1024),  # S3D, Kinetics
)
known = dict(
    video_pipeline=[dict(type='LoadExperts', experts=experts, max_tokens=30)],
    text_pipeline=[dict(type='HFTokenize', model='bert-base-uncased', max_length=25)],
)
train_dataloader = dict(dataset=known)
val_dataloader = dict(dataset=known)
test_dataloader = dict(dataset=known)
# For model.encoder.
rows = dict(experts={name: expert['dim'] for name, expert in experts.items()}, max_seconds=64)
