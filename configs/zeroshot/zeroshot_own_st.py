# An embedder of sentence-transformers on all of your own table (docs/own_data.md), zero-shot
# (docs/encoders.md):
#     --cfg-options model=NAME
_base_ = ['../zeroshot_own.py']

model = _base_.embedder
test_dataloader = dict(batch_size=8, dataset=_base_.embedder_reads)
shortcuts = dict(_delete_=True, **_base_.of_the_set, **_base_.embedder_shortcuts)
