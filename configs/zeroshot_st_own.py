# An embedder of sentence-transformers on your own videos (docs/own_data.md), zero-shot.
_base_ = ['_base_/zeroshot_own.py']

model = _base_.embedder
test_dataloader = dict(batch_size=8, dataset=_base_.embedder_reads)
shortcuts = dict(
    _delete_=True,
    **{name: keys for name, keys in _base_.shortcuts.items() if name != 'weights'},
    **_base_.embedder_shortcuts,
)
