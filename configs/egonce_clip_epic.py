# EgoVLP's EgoNCE on EPIC-KITCHENS-100 over CLIP4Clip (meanP): clips that share a verb and a noun
# are positives of each other.  Reads the videos, not features.  Not covered: EgoVLP's own towers,
# their pre-training on Ego4D.
_base_ = [
    '_base_/epic.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip4clip_vitb32.py',
]

frames = [
    dict(type='LoadVideo', num_frames=12),
    dict(type='ResizeShortSide', size=224),
    dict(type='CenterCrop', size=224),
]
words = [dict(type='CLIPTokenize', context_length=32)]
train_dataloader = dict(
    batch_size=128, num_workers=8, dataset=dict(video_pipeline=frames, text_pipeline=words)
)
test_dataloader = dict(num_workers=8, dataset=dict(video_pipeline=frames, text_pipeline=words))

model = dict(
    # Both directions added (EgoVLP), at its fixed temperature.
    losses=dict(egonce=dict(type='EgoNCELoss', loss_weight=2.0)),
    temperature=dict(_delete_=True, type='Temperature', init=0.05),
)
default_hooks = dict(checkpoint=dict(save_best='relevance/avg_nDCG'))
