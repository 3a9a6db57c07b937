"""Embeddings of texts and videos in a few lines: load a retriever, encode, compare.

Whatever the config says of the test set holds here too: the same frames, the same tokens.
"""

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

#: What other mm projects call it, by the beginning of the name.
ELSEWHERE = {
    'init_': 'load_retriever(config, checkpoint, device=...) gives (model, cfg)',
    'inference_': (
        'mmvtr.apis.inferencer.VideoRetrievalInferencer searches; encode_texts and encode_videos '
        'give the vectors of a model of load_retriever'
    ),
}


def __getattr__(name: str) -> object:
    """Say where a name of another mm project leads.

    Raises:
        ImportError: it begins as theirs do.
        AttributeError: any other name.
    """
    for start, lead in ELSEWHERE.items():
        if name.startswith(start):
            raise ImportError(f'mmvtr.apis has no {name}: {lead}')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
