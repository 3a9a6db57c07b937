# A model on an embedding server (docs/encoders.md), on your own videos, zero-shot:
#     MMVTR_EMBEDDINGS_URL=http://HOST:PORT/v1 python tools/test.py configs/zeroshot_remote_own.py
_base_ = ['_base_/zeroshot_own.py']

model = dict(
    data_preprocessor=_base_.embedder.data_preprocessor,
    encoder=dict(_delete_=True, type='RemoteEncoder', model='Qwen/Qwen3-VL-Embedding-2B'),
)
test_dataloader = dict(batch_size=8, dataset=_base_.embedder_reads)
shortcuts = dict(
    _delete_=True,
    style=['model.encoder.style'],
    **{name: keys for name, keys in _base_.shortcuts.items() if name != 'weights'},
    **_base_.embedder_shortcuts,
)
