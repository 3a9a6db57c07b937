# A model on an embedding server (docs/encoders.md), with mmvtr-gallery, on all of your own table:
#     MMVTR_EMBEDDINGS_URL=http://HOST:PORT/v1 mmvtr test zeroshot_own_remote
_base_ = ['zeroshot_own_st.py']

custom_imports = dict(imports=['mmvtr_gallery.remote'], allow_failed_imports=False)
model = dict(encoder=dict(type='RemoteEncoder'))
shortcuts = dict(style=['model.encoder.style'])
