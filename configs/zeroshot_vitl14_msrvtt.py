# CLIP ViT-L/14 on MSR-VTT 1k-A, zero-shot.
_base_ = ['_base_/zeroshot_msrvtt.py']

name, weights = 'ViT-L-14-quickgelu', 'openai'
frames = [
    dict(type='LoadVideo', sampling='per_second', num_frames=12),
    dict(type='OpenCLIPResize', model=name),
]
words = [dict(type='OpenCLIPTokenize', model=name)]
model = dict(
    encoder=dict(
        frames=dict(model=name, pretrained=weights), text=dict(model=name, pretrained=weights)
    )
)
test_dataloader = dict(dataset=dict(video_pipeline=frames, text_pipeline=words))
