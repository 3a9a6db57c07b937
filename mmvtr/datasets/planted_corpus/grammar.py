"""The grammar of planted captions: words, levels of detail, and sentences.

A caption says a conjunction of predicates, each a phrase of the table below that covers one
or more values of a slot.  The tables are the grammar: truth and vocabulary are read off them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmvtr.datasets.planted_corpus.knobs import Knobs
from mmvtr.datasets.planted_corpus.world import Facts, one_of, stream

#: slot -> value -> phrases that mean exactly this value.
EXACT: dict[str, dict[str, tuple[str, ...]]] = dict(
    size=dict(
        small=('small', 'little', 'tiny'),
        large=('large', 'big', 'huge'),
    ),
    colour=dict(
        red=('red', 'crimson'),
        orange=('orange',),
        yellow=('yellow', 'golden'),
        green=('green',),
        cyan=('cyan', 'turquoise'),
        blue=('blue',),
        purple=('purple', 'violet'),
        white=('white',),
    ),
    shape=dict(
        triangle=('triangle', 'wedge'),
        square=('square', 'box'),
        star=('star',),
        cross=('cross', 'plus'),
        heart=('heart',),
        crescent=('crescent', 'moon'),
    ),
    action=dict(
        left=('moves left', 'goes left'),
        right=('moves right', 'goes right'),
        up=('moves up', 'rises'),
        down=('moves down', 'falls'),
        circle=('circles', 'goes around'),
        bounce=('bounces', 'hops'),
        spin=('spins', 'rotates'),
        grow=('grows', 'expands'),
        shrink=('shrinks', 'contracts'),
        blink=('blinks', 'flashes'),
    ),
    background=dict(
        stripes=('stripes', 'lines'),
        checks=('checks', 'tiles'),
        dots=('dots', 'spots'),
        waves=('waves', 'ripples'),
        sand=('sand', 'gravel'),
    ),
)

#: action phrase -> all the actions it covers (hypernyms).
BROADER: dict[str, tuple[str, ...]] = {
    'moves': ('left', 'right', 'up', 'down', 'circle', 'bounce'),
    'travels': ('left', 'right', 'up', 'down', 'circle', 'bounce'),
    'moves sideways': ('left', 'right'),
    'moves vertically': ('up', 'down', 'bounce'),
    'changes size': ('grow', 'shrink'),
    'stays in place': ('spin', 'grow', 'shrink', 'blink'),
}

#: level -> its forms: what is said of an object ('action*': by a hypernym).  A specific caption
#: describes all objects and the background, the others one object.
FORMS: dict[str, tuple[tuple[str, ...], ...]] = dict(
    specific=(('size', 'colour', 'shape', 'action'),),
    medium=(('colour', 'shape', 'action'),),
    general=(
        ('colour',),
        ('shape',),
        ('action',),
        ('colour', 'action*'),
        ('shape', 'action*'),
        ('size', 'action'),
    ),
)

NOUNS = ('thing', 'object')
PREPOSITIONS = ('on', 'over')

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

    ``imbalance`` is of the training clips, ``uneven`` of the others: see ``Knobs``.
    """
    clips = knobs.num_clips(split)
    if split != 'train':
        spread = round(knobs.uneven * knobs.test_captions)
        drawn = stream(knobs, split, clips, 3).integers(-spread, spread + 1, size=clips)
        return np.maximum(knobs.test_captions + drawn, 1)
    weights = np.arange(1, clips + 1) ** -knobs.imbalance
    weights = stream(knobs, split, clips, 3).permutation(weights)
    wanted = np.cumsum(weights / weights.sum()) * clips * (knobs.captions - 1)
    return 1 + np.diff(np.round(wanted).astype(int), prepend=0)


def draw_captions(
    knobs: Knobs, split: str, clip: int, moments: list[Facts], count: int
) -> list[dict[str, Any]]:
    """Draw captions of one clip, spread over its moments.

    Args:
        knobs: of the corpus.
        split: 'train', 'val' or 'test'.
        clip: index of the clip in its split.
        moments: facts of the clip, from ``world.draw_clip``.
        count: captions to draw.

    Returns:
        A list of dict(text: str; level: 'specific', 'medium' or 'general'; moment: index of the
        moment described; start, end: its seconds; says: list of dict slot -> phrase, one dict
        an object; background: phrase or None).
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
    if knobs.medium == 0.5:  # as corpora were drawn before there was a choice
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
