# VATEX from the stored features of experts, for HiT (DVTR Sec. V-A.2): 30 rows an expert, 25
# tokens.  Widths are those of the networks; ours: a row every second (clips of 10 s).
_base_ = ['vatex.py']

store = 'data/vatex/features/'
experts = dict(
    i3d=dict(path=store + 'i3d.h5', dim=1024, seconds=None),  # the official I3D; times unknown
    motion=dict(path=store + 'motion.h5', dim=1024),  # S3D, Kinetics
)
known = dict(
    video_pipeline=[dict(type='LoadExperts', experts=experts, max_tokens=30)],
    text_pipeline=[dict(type='HFTokenize', model='bert-base-uncased', max_length=25)],
)
train_dataloader = dict(dataset=known)
val_dataloader = test_dataloader = dict(dataset=known)
# For model.encoder.
rows = dict(experts={name: expert['dim'] for name, expert in experts.items()}, max_seconds=32)
