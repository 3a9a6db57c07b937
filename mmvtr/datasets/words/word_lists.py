"""Frequent English words of captions and cooking instructions, by their possible parts of speech.

The tagger of :mod:`mmvtr.datasets.words.part_of_speech` chooses among them by context.
``english_words.txt`` has the words, and describes each list.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

_FILE = Path(__file__).with_name('english_words.txt')
_SECTIONS = re.findall(r'^\[(\w+)\]\n([^[#]*)', _FILE.read_text(encoding='utf-8'), re.MULTILINE)
_LISTS = {name: words.split() for name, words in _SECTIONS}

DETERMINERS = frozenset(_LISTS['DETERMINERS'])
PREPOSITIONS = frozenset(_LISTS['PREPOSITIONS'])
CONJUNCTIONS = frozenset(_LISTS['CONJUNCTIONS'])
PRONOUNS = frozenset(_LISTS['PRONOUNS'])
AUXILIARIES = frozenset(_LISTS['AUXILIARIES'])
BE = frozenset(_LISTS['BE'])
ADVERBS = frozenset(_LISTS['ADVERBS'])
NUMBERS = frozenset(_LISTS['NUMBERS'])
ADJECTIVES = frozenset(_LISTS['ADJECTIVES'])
VERBS = frozenset(_LISTS['VERBS'])
VERBS_AT_TIMES_NOUNS = frozenset(_LISTS['VERBS_AT_TIMES_NOUNS'])
NOUNS_AT_TIMES_VERBS = frozenset(_LISTS['NOUNS_AT_TIMES_VERBS'])
IRREGULAR_VERBS = dict(pair.split(':') for pair in _LISTS['IRREGULAR_VERBS'])
ASPECT_VERBS = frozenset(_LISTS['ASPECT_VERBS'])
ING_NOUNS = frozenset(_LISTS['ING_NOUNS'])
ING_HEADS = frozenset(_LISTS['ING_HEADS'])
NOUNS = frozenset(_LISTS['NOUNS'])
BEFORE_BARE_VERBS = frozenset(_LISTS['BEFORE_BARE_VERBS'])
IRREGULAR_PLURALS = dict(pair.split(':') for pair in _LISTS['IRREGULAR_PLURALS'])
KNOWN_VERBS = VERBS | VERBS_AT_TIMES_NOUNS | NOUNS_AT_TIMES_VERBS
#: Stems that have lost an e: writ-ing, slic-ing, carv-ing, chang-ing.
_LOST_E = re.compile(r'([^aeiou][aeiu]t|iz|[aeo]s|[cvu]|[rdn]g)$')
_ADDS_ES = ('ches', 'shes', 'sses', 'xes', 'zes', 'oes')


class Form(NamedTuple):
    """A word parsed as a verb form: 'base', 's', 'ing' or 'ed'; it need not be a verb."""

    base: str
    name: Literal['base', 's', 'ing', 'ed']


def lemma(word: str, kind: Literal['VERB', 'NOUN']) -> str:
    """Return the lemma of a lower-cased word: 'slicing' -> 'slice', 'leaves' -> 'leaf'."""
    return verb_form(word).base if kind == 'VERB' else singular(word)


@cache
def verb_form(word: str) -> Form:
    """Return a lower-cased word parsed as a verb form; an 's' form only for a known verb."""
    if word in IRREGULAR_VERBS:
        return Form(IRREGULAR_VERBS[word], 'ing' if word.endswith('ing') else 'ed')
    if word in KNOWN_VERBS or word in NOUNS:
        return Form(word, 'base')
    if word.endswith('ing') and len(word) > 4:
        return Form(_without('ing', word), 'ing')
    if word.endswith('ed') and not word.endswith('eed') and len(word) > 4:
        return Form(_without('ed', word), 'ed')
    if word.endswith('s'):
        stems = [word[:-1]]
        if word.endswith('es'):
            stems += [word[:-2], word[:-3] + 'y']
        verbs = [stem for stem in stems if stem in KNOWN_VERBS]
        return Form(verbs[0], 's') if verbs else Form(word, 'base')
    return Form(word, 'base')


@cache
def singular(noun: str) -> str:
    """Return a lower-cased noun without its plural ending."""
    if noun in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[noun]
    if noun in NOUNS or len(noun) < 4 or not noun.endswith('s'):
        return noun
    if noun.endswith(('ss', 'us', 'sis')):
        return noun
    if noun.endswith('ies'):
        return noun[:-3] + 'y'
    return noun[:-2] if noun.endswith(_ADDS_ES) else noun[:-1]


def _without(ending: str, word: str) -> str:
    """Return the base of a regular form: undouble letters, restore y or a lost e."""
    stem = word[: -len(ending)]
    doubled = len(stem) > 2 and stem[-1] == stem[-2]
    with_y = stem[:-1] + 'y' if ending == 'ed' and stem.endswith('i') else stem
    for base in (stem, stem + 'e', stem[:-1] if doubled else stem, with_y):
        if base in KNOWN_VERBS:
            return base
    if doubled and stem[-1] not in 'lsz':
        return stem[:-1]
    return stem + 'e' if _LOST_E.search(stem) else with_y
