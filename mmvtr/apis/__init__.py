"""Embeddings of texts and videos in a few lines: load a retriever, encode, compare.

Whatever the config says of the test set holds here too: the same frames, the same tokens.
"""

from mmvtr.apis.elsewhere import refuse
from mmvtr.apis.inner_products import refuse_without_vectors, sigmas, vectors
from mmvtr.apis.loading import fingerprint, load_retriever, origin_of
from mmvtr.apis.sets import PartOfSet, as_tested, encode_set
from mmvtr.apis.stored import Stored, decode_here, load_stored_retriever, refuse_own_weights
from mmvtr.apis.texts import TextEncoder, encode_texts, refuse_stored_words
from mmvtr.apis.videos import VideoEncoder, encode_videos

__all__ = [
    'PartOfSet',
    'Stored',
    'TextEncoder',
    'VideoEncoder',
    'as_tested',
    'decode_here',
    'encode_set',
    'encode_texts',
    'encode_videos',
    'fingerprint',
    'load_retriever',
    'load_stored_retriever',
    'origin_of',
    'refuse_own_weights',
    'refuse_stored_words',
    'refuse_without_vectors',
    'sigmas',
    'vectors',
]


def __getattr__(name: str) -> object:
    """Refuse what is not here, and say where the names of other mm projects lead."""
    return refuse(name)
