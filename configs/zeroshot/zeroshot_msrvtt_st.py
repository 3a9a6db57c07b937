# An embedder of sentence-transformers on MSR-VTT 1k-A, zero-shot (docs/encoders.md):
#     --cfg-options model=NAME
_base_ = ['../zeroshot_msrvtt.py']

model = _base_.embedder
test_dataloader = dict(batch_size=8, dataset=_base_.embedder_reads)
shortcuts = dict(_delete_=True, **_base_.embedder_shortcuts)
