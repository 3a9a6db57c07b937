# A model on an embedding server (docs/encoders.md), on your own videos, zero-shot:
#     MMVTR_EMBEDDINGS_URL=http://HOST:PORT/v1 python tools/test.py configs/zeroshot_remote_own.py
_base_ = ['zeroshot_st_own.py']

model = dict(encoder=dict(_delete_=True, type='RemoteEncoder', model='Qwen/Qwen3-VL-Embedding-2B'))
shortcuts = dict(style=['model.encoder.style'])
