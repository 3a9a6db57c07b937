# A pretrained dual encoder as it is: cosine of a text with the mean of its unit frames (meanP of
# CLIP4Clip, without training).  Size, mean and std of the frames and the tokens are the model's.
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor', mean=None, std=None),
    encoder=dict(
        type='CLIP4Clip', frames=dict(type='OpenCLIPFrames'), text=dict(type='OpenCLIPText')
    ),
    similarity=dict(type='CosineSimilarity'),
    temperature=dict(type='Temperature', init=0.01),  # what a transform of the scores takes
    losses=dict(contrastive=dict(type='ContrastiveLoss')),
)
# By the name that configs go by: open_clip's name and tag, and what they ask of the encoder and of
# the data.
towers = dict(
    vitb32=('ViT-B-32-quickgelu', 'openai'),
    vitl14=('ViT-L-14-quickgelu', 'openai'),
    siglip2=('ViT-B-16-SigLIP2', 'webli'),
    pe=('PE-Core-B-16', 'meta'),
)
encoders = {
    key: {kind: dict(model=name, pretrained=tag) for kind in ('frames', 'text')}
    for key, (name, tag) in towers.items()
}
reads = {
    key: dict(
        video_pipeline=[
            dict(type='LoadVideo', sampling='per_second', num_frames=12),
            dict(type='OpenCLIPResize', model=name),
        ],
        text_pipeline=[dict(type='OpenCLIPTokenize', model=name)],
    )
    for key, (name, _) in towers.items()
}
# `shortcuts` of an entry:
#     --cfg-options weights=/path/to/checkpoint transform=SinkhornHook queries=test
zeroshot_shortcuts = dict(
    weights=['model.encoder.frames.pretrained', 'model.encoder.text.pretrained'],
    transform=['default_hooks.transform.type'],
    queries=['default_hooks.transform.queries'],
)
# An embedder of sentence-transformers, which scales frames and tokenises by itself:
#     --cfg-options model=NAME
embedder = dict(
    data_preprocessor=dict(_delete_=True, type='mmvtr.VideoTextDataPreprocessor', normalise=False),
    encoder=dict(
        _delete_=True, type='SentenceTransformerEncoder', model='Qwen/Qwen3-VL-Embedding-2B'
    ),
)
embedder_reads = dict(
    video_pipeline=[dict(type='LoadVideo', sampling='per_second', num_frames=12)],
    text_pipeline=[dict(type='TextBytes')],
)
embedder_shortcuts = dict(
    transform=['default_hooks.transform.type'],
    queries=['default_hooks.transform.queries'],
    model=['model.encoder.model'],
    frames=['test_dataloader.dataset.video_pipeline.0.num_frames'],
    sampling=['test_dataloader.dataset.video_pipeline.0.sampling'],
    text_prompt=['model.encoder.text_prompt'],
    video_prompt=['model.encoder.video_prompt'],
)
