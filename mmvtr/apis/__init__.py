"""Embeddings of texts and videos in a few lines: load a retriever, encode, compare.

Inputs are read as those of the config's test set: the same frames, the same tokens.
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
from mmvtr.registry import own_names

__all__ = own_names(globals())


def __getattr__(name: str) -> object:
    """Raise for an unknown name; for names of other mm projects the error names the equivalent."""
    if name.startswith('init_'):
        there = 'load_retriever(config, checkpoint, device=...) gives (model, cfg)'
    elif name.startswith('inference_'):
        there = (
            'mmvtr.apis.inferencer.VideoRetrievalInferencer searches; encode_texts and '
            'encode_videos give the vectors of a model of load_retriever'
        )
    else:
        raise AttributeError(f"module 'mmvtr.apis' has no attribute {name!r}")
    raise ImportError(f'mmvtr.apis has no {name}: {there}')
