# CLIP4Clip (seqTransf) on DiDeMo paragraphs: row "CLIP4Clip" of UATVR Tab. 8.  64 words and 64
# frames, of which a frame a second fills at most 30 (docs/data.md).
_base_ = [
    '_base_/didemo.py',
    '_base_/schedule_clip_5e.py',
    '_base_/clip4clip_vitb32.py',
]

model = dict(
    encoder=dict(
        # 128 x 30 frames keep 146 GB of activations without (--amp: 73).
        frames=dict(grad_checkpointing=True),
        aggregator='transformer',
        temporal_layers=4,
    ),
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)
