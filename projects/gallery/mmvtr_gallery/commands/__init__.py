"""The gallery's command-line tools, found by `mmvtr NAME` as entry points."""

#: Help of ``--text-model``.
TEXT_MODEL = (
    'encodes texts for vectors made elsewhere: sentence-transformers:NAME, open_clip:NAME@TAG, or '
    'server:NAME of the /v1/embeddings at MMVTR_EMBEDDINGS_URL'
)
