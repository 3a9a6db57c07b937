"""Which nouns of a tagged sentence belong to which verb: one rule, for actions and role graphs."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple, Sequence

from mmvtr.datasets.words.part_of_speech import Tag


class Clauses(NamedTuple):
    """A sentence's verbs and noun phrases, each as word positions.

    Attributes:
        verbs: position of each verb.
        nouns: positions of each run of nouns.
        objects: (verb, noun) that belong together, places in the two lists: each verb with the noun
            phrases up to the next verb, or, if none follows, with the last one before it.
        subjects: likewise, the first verb with each noun phrase before it.
    """

    verbs: list[int]
    nouns: list[list[int]]
    objects: list[tuple[int, int]]
    subjects: list[tuple[int, int]]


def clauses(tagged: Sequence[tuple[str, Tag]]) -> Clauses:
    """Return the clauses of tagged words (:func:`~mmvtr.datasets.words.part_of_speech.tag`).

    "a man chops the spring onions and fries": chops and fries have the object onions, and chops has
    the subject man.
    """
    kinds = [kind for _, kind in tagged]
    verbs = [i for i, kind in enumerate(kinds) if kind == 'VERB']
    runs = groupby(range(len(kinds)), key=lambda i: kinds[i] == 'NOUN')
    nouns = [list(run) for is_noun, run in runs if is_noun]
    objects = []
    for verb, (start, end) in enumerate(zip(verbs, [*verbs[1:], len(kinds)])):
        following = [noun for noun, run in enumerate(nouns) if start < run[0] < end]
        before = [noun for noun, run in enumerate(nouns) if run[0] < start]
        objects += [(verb, noun) for noun in following or before[-1:]]
    subjects = [(0, noun) for noun, run in enumerate(nouns) if verbs and run[0] < verbs[0]]
    return Clauses(verbs, nouns, objects, subjects)
