"""Whether, and how far, a caption holds of a clip: exact, for all captions x clips at once."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

from mmvtr.datasets.planted_corpus.grammar import MEANING
from mmvtr.datasets.planted_corpus.world import BACKGROUNDS, OBJECT, Facts

_VALUES = {**OBJECT, 'background': BACKGROUNDS}
_MAX_OBJECTS = 2
_CHUNK = 512


class Truth(NamedTuple):
    """Truth and graded relevance of T captions for V clips.

    Attributes:
        holds: bool [T, V], every predicate of the caption is satisfied by different objects
            for its different phrases, within one moment.
        relevance: float16 [T, V] in [0, 1], the largest share of predicates that one moment
            satisfies under the best assignment of phrases to objects; 1 iff ``holds``.
    """

    holds: np.ndarray
    relevance: np.ndarray


def judge(captions: Sequence[dict[str, Any]], clips: Sequence[list[Facts]]) -> Truth:
    """Judge every caption against every clip.

    Args:
        captions: T captions of ``grammar.draw_captions`` ('says' and 'background' are read).
        clips: the moments of V clips of ``world.draw_clip``, equally many a clip.

    Returns:
        Truth of [T, V].
    """
    facts = _facts_array(clips)
    chunks = [captions[i : i + _CHUNK] for i in range(0, len(captions), _CHUNK)]
    parts = [_judge(chunk, facts) for chunk in chunks]
    return Truth(*(np.concatenate(part) for part in zip(*parts)))


def false_negative_share(holds: np.ndarray, own: np.ndarray) -> float:
    """Return the share of true pairs among the unannotated ones.

    Args:
        holds: bool [T, V], which texts hold for which clips.
        own: bool [T, V], the annotated pairs.
    """
    return float((holds & ~own).sum() / max((~own).sum(), 1))


def _judge(captions: Sequence[dict[str, Any]], facts: dict[str, np.ndarray]) -> Truth:
    agreed = sum(_agreement(slot, captions, facts[slot]) for slot in OBJECT)  # [T, 2, V, M, 2]
    straight = agreed[:, 0, ..., 0] + agreed[:, 1, ..., 1]
    crossed = agreed[:, 0, ..., 1] + agreed[:, 1, ..., 0]
    count = np.maximum(straight, crossed)  # [T, V, M]
    count += _agreement('background', captions, facts['background'])[:, 0, ..., 0]
    best = count.max(axis=-1)  # [T, V]
    said = [sum(map(len, c['says'])) + (c['background'] is not None) for c in captions]
    said = np.array(said, dtype=np.int8)[:, None]
    return Truth(best == said, (best / said).astype(np.float16))


def _agreement(slot: str, captions: Sequence[dict[str, Any]], facts: np.ndarray) -> np.ndarray:
    """Return, int8 [T, phrases, V, M, objects], 1 where a phrase states the slot correctly."""
    values = _VALUES[slot]
    allowed = np.zeros((len(captions), _MAX_OBJECTS, len(values) + 1), dtype=np.int8)
    for t, caption in enumerate(captions):
        says = [caption] if slot == 'background' else caption['says']
        for p, phrases in enumerate(says):
            phrase = phrases.get(slot)
            if phrase is not None:
                allowed[t, p, [values.index(value) for value in MEANING[slot][phrase]]] = 1
    return allowed[:, :, facts]


def _facts_array(clips: Sequence[list[Facts]]) -> dict[str, np.ndarray]:
    """Return the slots' values, int [V, M, objects]; -1 for an absent object."""
    shape = (len(clips), len(clips[0]))
    facts = {slot: np.full((*shape, _MAX_OBJECTS), -1) for slot in OBJECT}
    facts['background'] = np.zeros((*shape, 1), dtype=int)
    for v, moments in enumerate(clips):
        for m, moment in enumerate(moments):
            facts['background'][v, m, 0] = BACKGROUNDS.index(moment['background'])
            for o, thing in enumerate(moment['objects']):
                for slot, values in OBJECT.items():
                    facts[slot][v, m, o] = values.index(thing[slot])
    return facts
