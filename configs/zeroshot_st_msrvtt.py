# An embedder of sentence-transformers on MSR-VTT 1k-A, zero-shot.
_base_ = ['_base_/default_runtime.py', '_base_/msrvtt_1ka.py', '_base_/zeroshot_towers.py']

train_dataloader = None
model = _base_.embedder
test_dataloader = dict(batch_size=8, dataset=_base_.embedder_reads)
shortcuts = dict(
    **{name: keys for name, keys in _base_.zeroshot_shortcuts.items() if name != 'weights'},
    **_base_.embedder_shortcuts,
)
