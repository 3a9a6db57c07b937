"""Where the names of other mm projects lead."""

from __future__ import annotations

#: By the beginning of a name, what there is here.
ELSEWHERE = {
    'init_': 'load_retriever(config, checkpoint, device=...) gives (model, cfg)',
    'inference_': (
        'mmvtr.apis.inferencer.VideoRetrievalInferencer searches; encode_texts and encode_videos '
        'give the vectors of a model of load_retriever'
    ),
}


def refuse(name: str) -> None:
    """Refuse a name that ``mmvtr.apis`` has not.

    Raises:
        ImportError: it begins as theirs do; says what there is.
        AttributeError: any other name.
    """
    for start, lead in ELSEWHERE.items():
        if name.startswith(start):
            raise ImportError(f'mmvtr.apis has no {name}: {lead}')
    raise AttributeError(f"module 'mmvtr.apis' has no attribute {name!r}")
