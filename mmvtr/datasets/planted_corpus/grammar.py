"""The grammar of planted captions (words, levels of detail, sentences), and their truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple, Sequence

import numpy as np

from mmvtr.datasets.planted_corpus.world import BACKGROUNDS, OBJECT, Facts, Knobs, one_of, stream

_TABLES = json.loads(Path(__file__).with_suffix('.json').read_text(encoding='utf-8'))
#: slot -> value -> phrases that mean exactly this value.
EXACT: dict[str, dict[str, tuple[str, ...]]] = {
    slot: {value: tuple(phrases) for value, phrases in words.items()}
    for slot, words in _TABLES['exact'].items()
}
#: action phrase -> all the actions it covers (hypernyms).
BROADER = {phrase: tuple(actions) for phrase, actions in _TABLES['broader'].items()}
#: level -> its forms: the slots said of an object ('action*': by a hypernym).  A specific caption
#: describes all objects and the background, the others one object.
FORMS = {level: tuple(map(tuple, forms)) for level, forms in _TABLES['forms'].items()}
NOUNS, PREPOSITIONS = tuple(_TABLES['nouns']), tuple(_TABLES['prepositions'])

#: slot -> phrase -> values it covers.
MEANING: dict[str, dict[str, tuple[str, ...]]] = {
    slot: {phrase: (value,) for value, phrases in words.items() for phrase in phrases}
    for slot, words in EXACT.items()
}
MEANING['action'] |= BROADER


def vocabulary() -> list[str]:
    """Return all words of the grammar, sorted; equal for all knobs."""
    phrases = [phrase for meanings in MEANING.values() for phrase in meanings]
    phrases += [*NOUNS, *PREPOSITIONS, 'a', 'an', 'and', 'something', 'there is']
    return sorted({word for phrase in phrases for word in phrase.split()})


def caption_counts(knobs: Knobs, split: str) -> np.ndarray:
    """Return the captions per clip of ``split``, int [V], at least one each.

    ``imbalance`` applies to the training clips, ``uneven`` to the others: see ``Knobs``.
    """
    clips = knobs.num_clips(split)
    if split != 'train':
        spread = round(knobs.uneven * knobs.test_captions)
        drawn = stream(knobs, split, clips, 3).integers(-spread, spread + 1, size=clips)
        return np.maximum(knobs.test_captions + drawn, 1)
    weights = np.arange(1, clips + 1) ** -knobs.imbalance
    weights = stream(knobs, split, clips, 3).permutation(weights)
    cumulative = np.cumsum(weights / weights.sum()) * clips * (knobs.captions - 1)
    return 1 + np.diff(np.round(cumulative).astype(int), prepend=0)


def draw_captions(
    knobs: Knobs, split: str, clip: int, moments: list[Facts], count: int
) -> list[dict[str, Any]]:
    """Draw captions of one clip, spread over its moments.

    Args:
        knobs: knobs of the corpus.
        split: 'train', 'val' or 'test'.
        clip: index of the clip in its split.
        moments: facts of the clip, from ``world.draw_clip``.
        count: captions to draw.

    Returns:
        A list of dict(text: str; level: 'specific', 'medium' or 'general'; moment: index of the
        moment described; start, end: of that moment in seconds; says: list of dict slot -> phrase,
        one dict an object; background: phrase or None).
    """
    rng = stream(knobs, split, clip, 1)
    order = rng.permutation(len(moments))
    captions = []
    for k in range(count):
        moment = int(order[k % len(order)])
        facts = moments[moment]
        level = _draw_level(rng, knobs)
        says, background = _draw_predicates(rng, level, facts)
        captions.append(
            dict(
                text=_sentence(rng, says, background),
                level=level,
                moment=moment,
                start=facts['start'],
                end=facts['end'],
                says=says,
                background=background,
            )
        )
    return captions


def _draw_level(rng: np.random.Generator, knobs: Knobs) -> str:
    if rng.random() < knobs.general:
        return 'general'
    if knobs.medium == 0.5:  # keeps corpora from before the knob existed unchanged
        return one_of(rng, ('specific', 'medium'))
    return 'medium' if rng.random() < knobs.medium else 'specific'


def _draw_predicates(
    rng: np.random.Generator, level: str, facts: Facts
) -> tuple[list[dict[str, str]], str | None]:
    form = one_of(rng, FORMS[level])
    if level == 'specific':
        says = [_draw_phrases(rng, form, thing) for thing in facts['objects']]
        return says, one_of(rng, EXACT['background'][facts['background']])
    return [_draw_phrases(rng, form, one_of(rng, facts['objects']))], None


def _draw_phrases(
    rng: np.random.Generator, form: tuple[str, ...], thing: dict[str, str]
) -> dict[str, str]:
    says = {}
    for slot in form:
        if slot == 'action*':
            covers = [phrase for phrase, values in BROADER.items() if thing['action'] in values]
            says['action'] = one_of(rng, covers)
        else:
            says[slot] = one_of(rng, EXACT[slot][thing[slot]])
    return says


def _sentence(rng: np.random.Generator, says: list[dict[str, str]], background: str | None) -> str:
    text = ' and '.join(_clause(rng, phrases) for phrases in says)
    return text if background is None else f'{text} {one_of(rng, PREPOSITIONS)} {background}'


def _clause(rng: np.random.Generator, says: dict[str, str]) -> str:
    words = [says[slot] for slot in ('size', 'colour', 'shape') if slot in says]
    if not words:
        return f'something {says["action"]}'
    if 'shape' not in says:
        words.append(one_of(rng, NOUNS))
    article = 'an' if words[0][0] in 'aeiou' else 'a'
    noun = ' '.join([article, *words])
    return f'{noun} {says["action"]}' if 'action' in says else f'there is {noun}'


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
        captions: T captions from ``grammar.draw_captions`` ('says' and 'background' are read).
        clips: the moments of V clips from ``world.draw_clip``, equally many per clip.

    Returns:
        Truth of [T, V].
    """
    facts = _facts_array(clips)
    chunks = [captions[i : i + _CHUNK] for i in range(0, len(captions), _CHUNK)]
    parts = [_judge(chunk, facts) for chunk in chunks]
    return Truth(*(np.concatenate(part) for part in zip(*parts)))


def false_negative_share(holds: np.ndarray, annotated: np.ndarray) -> float:
    """Return the share of true pairs among the unannotated ones.

    Args:
        holds: bool [T, V], which texts hold for which clips.
        annotated: bool [T, V], the annotated pairs.
    """
    return float((holds & ~annotated).sum() / max((~annotated).sum(), 1))


def _judge(captions: Sequence[dict[str, Any]], facts: dict[str, np.ndarray]) -> Truth:
    agreed = sum(_agreement(slot, captions, facts[slot]) for slot in OBJECT)  # [T, 2, V, M, 2]
    straight = agreed[:, 0, ..., 0] + agreed[:, 1, ..., 1]
    crossed = agreed[:, 0, ..., 1] + agreed[:, 1, ..., 0]
    count = np.maximum(straight, crossed)  # [T, V, M]
    count += _agreement('background', captions, facts['background'])[:, 0, ..., 0]
    best = count.max(axis=-1)  # [T, V]
    stated = [sum(map(len, c['says'])) + (c['background'] is not None) for c in captions]
    stated = np.array(stated, dtype=np.int8)[:, None]
    return Truth(best == stated, (best / stated).astype(np.float16))


def _agreement(slot: str, captions: Sequence[dict[str, Any]], facts: np.ndarray) -> np.ndarray:
    """Return 1 where a phrase states the slot correctly, int8 [T, phrases, V, M, objects]."""
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
