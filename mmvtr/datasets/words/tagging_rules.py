"""Rules that distinguish verbs and nouns by word lists, endings and context.

A word that can be a verb is tagged as one by its position: in that of an imperative or an
infinitive, after a subject that has no verb yet, after an auxiliary; not after a determiner.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple, Sequence

from mmvtr.datasets.words import word_lists as lists
from mmvtr.datasets.words.word_lists import KNOWN_VERBS, singular, verb_form

STOPS = ',.;:!?'
#: Words that may precede an imperative.
_OPENERS = frozenset((*STOPS, 'and', 'or', 'then', 'but'))
#: Words that may follow a bare verb such as 'cook' or 'stir'.
_MANNERS = frozenset('for until till well'.split())
_AFTER_AUXILIARY = KNOWN_VERBS | {'be', 'also', 'not'}
_ADJECTIVE = re.compile(r'.{3,}(ous|ful|less|able|ible|ish|ive|ical|ier|iest)$')
_NO_FINITE_VERB_AFTER = ('DETERMINER', 'NUMBER', 'PREPOSITION', 'VERB', 'AUXILIARY')
_CLOSED = {
    'AUXILIARY': lists.AUXILIARIES,
    'CONJUNCTION': lists.CONJUNCTIONS,
    'DETERMINER': lists.DETERMINERS,
    'NUMBER': lists.NUMBERS,
    'PRONOUN': lists.PRONOUNS,
    'ADVERB': lists.ADVERBS,
    'PREPOSITION': lists.PREPOSITIONS,
    'ADJECTIVE': lists.ADJECTIVES,
}


def kinds_of(tokens: tuple[str, ...]) -> Sequence[str]:
    """Return the kind of each token of a sentence.

    Args:
        tokens: lower-cased words and stops.

    Returns:
        'VERB', 'NOUN', 'STOP' or a kind of closed class such as 'DETERMINER', for each.
    """
    kinds: list[str] = []
    for i, token in enumerate(tokens):
        kinds.append(_kind(token, _Place(tokens, kinds, i)))
    return _with_imperative(tokens, kinds)


class _Place(NamedTuple):
    """A word in its sentence: its position and the kinds of the words before it."""

    tokens: tuple[str, ...]
    kinds: Sequence[str]
    position: int

    @property
    def previous(self) -> str:
        """The previous word, '' at the start."""
        return self.tokens[self.position - 1] if self.position else ''

    @property
    def previous_kind(self) -> str:
        """The kind of the previous word, 'START' at the start."""
        return self.kinds[-1] if self.position else 'START'

    @property
    def next(self) -> str:
        """The next word, '' at the end."""
        return self.tokens[self.position + 1] if self.position + 1 < len(self.tokens) else ''

    @property
    def next_kind(self) -> str:
        """The next word's kind without context, 'STOP' at the end."""
        return _kind_of_itself(self.next) if self.next else 'STOP'

    @property
    def opens(self) -> bool:
        """Whether an imperative may follow: at the start or after an opener, skipping adverbs."""
        end = self.position
        while end and self.kinds[end - 1] == 'ADVERB':
            end -= 1
        return end == 0 or self.tokens[end - 1] in _OPENERS

    @property
    def clause_has_verb(self) -> bool:
        """Whether there is a verb or an auxiliary since the last conjunction or stop."""
        for kind in reversed(self.kinds):
            if kind in ('CONJUNCTION', 'STOP'):
                return False
            if kind in ('VERB', 'AUXILIARY'):
                return True
        return False

    @property
    def object_follows(self) -> bool:
        """Whether a noun phrase begins next, so that this word is unlikely to be a noun."""
        return self.next_kind in ('DETERMINER', 'PRONOUN')


@cache
def _kind_of_itself(word: str) -> str:
    """Return a word's closed class, or 'OPEN' for verbs and nouns."""
    if word[0] in STOPS:
        return 'STOP'
    if word[0].isdigit():
        return 'NUMBER'
    kind = next((kind for kind, members in _CLOSED.items() if word in members), 'OPEN')
    if kind != 'OPEN' or word in KNOWN_VERBS or word in lists.NOUNS:
        return kind
    if word.endswith('ly'):
        return 'ADVERB'
    return 'ADJECTIVE' if _ADJECTIVE.match(word) else 'OPEN'


def _kind(word: str, place: _Place) -> str:
    kind, form = _kind_of_itself(word), verb_form(word)
    if word == 'can':  # a tin unless a verb follows
        return 'AUXILIARY' if place.next in _AFTER_AUXILIARY else 'NOUN'
    if kind not in ('OPEN', 'ADJECTIVE'):
        return kind
    if form.name in ('ing', 'ed') or form.base in KNOWN_VERBS:
        if _IS_VERB[form.name](word, place):
            return 'VERB'
        kind = 'ADJECTIVE' if form.name == 'ed' else kind
    return 'NOUN' if kind == 'OPEN' else kind


def _with_imperative(tokens: tuple[str, ...], kinds: list[str]) -> Sequence[str]:
    """Return kinds; an unknown first word is a verb before an object, or if there is no other."""
    if len(tokens) < 2 or kinds[0] != 'NOUN' or tokens[0] in lists.NOUNS or _is_plural(tokens[0]):
        return kinds
    no_verb = 'VERB' not in kinds and 'AUXILIARY' not in kinds
    follows = kinds[1] in ('DETERMINER', 'PRONOUN')
    lonely = no_verb and kinds[1] not in ('STOP', 'CONJUNCTION')
    return ['VERB', *kinds[1:]] if follows or lonely else kinds


def _weight(word: str) -> int:
    """Return how verb-like a listed form is: 2 a verb, 1 sometimes a noun, 0 sometimes a verb."""
    base = verb_form(word).base
    return 2 * (base in lists.VERBS) + (base in lists.VERBS_AT_TIMES_NOUNS)


def _base_is_verb(word: str, place: _Place) -> bool:
    weight, kind = _weight(word), place.previous_kind
    if place.opens:
        return _imperative_is_verb(weight, place)
    if kind in ('DETERMINER', 'NUMBER'):
        return False
    if place.previous == 'to':
        return weight > 0 or place.object_follows
    if kind == 'AUXILIARY':
        return weight > 0 or place.previous not in lists.BE
    if weight == 0:
        return False
    if kind == 'PRONOUN' or place.object_follows or place.previous in lists.BEFORE_BARE_VERBS:
        return True
    if kind == 'NOUN' and not place.clause_has_verb and _follows_subject(place):
        return True
    return weight == 2 or (kind != 'VERB' and place.next in _MANNERS)


def _imperative_is_verb(weight: int, place: _Place) -> bool:
    if place.next == 'of' or place.next_kind == 'AUXILIARY':
        return weight == 2
    if 'VERB' in place.kinds:  # after 'and', probably another object of that verb
        return weight > 0 or place.object_follows
    if 'NOUN' in place.kinds:  # 'a hat and tie'
        return weight == 2 or place.object_follows
    subject_ends = place.next_kind == 'CONJUNCTION' or verb_form(place.next).name == 'ing'
    return weight > 0 or not subject_ends


def _follows_subject(place: _Place) -> bool:
    """Return whether a plural subject, or an opening phrase ('in a bowl mix eggs'), precedes."""
    return _is_plural(place.previous) or place.kinds[0] in ('PREPOSITION', 'CONJUNCTION')


def _s_is_verb(word: str, place: _Place) -> bool:
    weight, kind = _weight(word), place.previous_kind
    if word in lists.IRREGULAR_PLURALS or kind in _NO_FINITE_VERB_AFTER:
        return False
    if place.previous == 'and':
        return weight > 0 and 'VERB' in place.kinds
    if place.clause_has_verb:
        return weight == 2
    if kind == 'START':
        return weight > 0 and place.next_kind != 'OPEN' and place.next != 'of'
    return weight > 0 or place.object_follows


def _ing_is_verb(word: str, place: _Place) -> bool:
    kind = place.previous_kind
    if place.previous in lists.BE or verb_form(place.previous).base in lists.ASPECT_VERBS:
        return True
    if word in lists.ING_NOUNS:
        return place.object_follows and kind != 'DETERMINER'
    if place.opens:
        return True
    if place.next in lists.ING_HEADS and _weight(word) < 2:
        return False
    if kind in ('DETERMINER', 'ADJECTIVE', 'NUMBER'):
        return False
    return kind != 'VERB' or place.object_follows


def _ed_is_verb(word: str, place: _Place) -> bool:
    if place.previous in lists.BE or place.object_follows:
        return True
    if place.next_kind in ('OPEN', 'ADJECTIVE'):  # more likely modifies the next word
        return place.previous_kind == 'NOUN' and not place.clause_has_verb
    return place.previous_kind != 'DETERMINER'


_IS_VERB = dict(base=_base_is_verb, s=_s_is_verb, ing=_ing_is_verb, ed=_ed_is_verb)


def _is_plural(noun: str) -> bool:
    return singular(noun) != noun or noun in ('people', 'police')
