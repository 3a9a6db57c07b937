"""Embeddings of texts and videos in a few lines: load a retriever, encode, compare.

Whatever the config says of the test set holds here too: the same frames, the same tokens.
"""

from mmvtr.apis.loading import fingerprint, load_retriever, origin_of
from mmvtr.apis.sets import (
    PartOfSet,
    as_tested,
    encode_set,
    refuse_without_vectors,
    sigmas,
    vectors,
)
from mmvtr.apis.texts import TextEncoder, encode_texts, refuse_stored_words
from mmvtr.apis.videos import VideoEncoder, encode_videos

__all__ = [
    'PartOfSet',
    'TextEncoder',
    'VideoEncoder',
    'as_tested',
    'encode_set',
    'encode_texts',
    'encode_videos',
    'fingerprint',
    'load_retriever',
    'origin_of',
    'refuse_stored_words',
    'refuse_without_vectors',
    'sigmas',
    'vectors',
]
