"""Verb and noun classes of captions for datasets without annotated classes; they define relevance.

Wray et al. (CVPR 2021) do this for MSR-VTT and YouCook2; here words replace their synonym sets.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple, Sequence, get_args

from mmvtr.datasets.annotation_files import read_json
from mmvtr.datasets.annotation_values import (
    MOST,
    Place,
    field,
    listing,
    mapping,
    name_of,
    shown,
    wrong,
)
from mmvtr.datasets.records import Records
from mmvtr.datasets.words.part_of_speech import Method, Tag, clauses, tag
from mmvtr.datasets.words.word_lists import lemma
from mmvtr.errors import UnknownKey
from mmvtr.functional.values import check_range
from mmvtr.registry import TASK_UTILS


class Classes(NamedTuple):
    """Verb and noun classes and actions (verb, noun) of a caption, without repetition."""

    verbs: Sequence[int] = ()
    nouns: Sequence[int] = ()
    actions: Sequence[tuple[int, int]] = ()


@TASK_UTILS.register_module()
class CaptionClasses:
    """Add ``classes`` and ``actions`` to the records of a dataset.

    A text has the classes of its own words, a video the classes that at least ``share`` of its
    captions have (RANP: a quarter), and those of its captions' actions that consist of these.  With
    a tagger, a class is the lemma of a verb or a noun, and its number is :func:`class_number`, the
    same in every set; an action is a verb with the last word of each noun phrase up to the next
    verb, or of the one before if none follows: "chop the spring onions and fry" has the actions
    chop onion and fry onion.  (Each of several actions is assumed to take an equal share of a
    clip's length.)

    Args:
        parser: 'rules' or 'spacy' (see :func:`~mmvtr.datasets.words.part_of_speech.tag`), or a json
            file from text_id to ``{"verb": [12], "noun": [3, 114]}``, numbers from 0; then an
            action is each verb with the first noun, as in EPIC. There is no fallback for a missing
            one.
        share: minimum share of a video's captions that must have a class.

    Attributes:
        names: lemma by class number, once called with a tagger.

    Raises:
        ValueError: wrong ``share``; (called) records that have classes, a malformed file.
        FileNotFoundError: no such file.
        ImportError: spaCy is not installed.
        KeyError: (called) the file lacks a text.
    """

    def __init__(self, *, parser: str, share: float = 0.25) -> None:
        check_range('(0, 1]', share=share)
        if parser not in get_args(Method) and not parser.endswith('.json'):
            raise ValueError(
                f"CaptionClasses: parser must be 'rules', 'spacy' or a .json file, not {parser!r}"
            )
        self.share = share
        self.names: dict[int, str] = {}
        if parser.endswith('.json'):
            self._parse: Callable[[dict[str, Any]], Classes] = _FromFile(Path(parser))
        else:
            tag('', parser)  # fails early if spaCy is missing
            self._parse = partial(self._tagged, parser)

    def __call__(self, videos: Records, texts: Records) -> tuple[Records, Records]:
        """Add classes and actions in place; a text's ``video_idx`` lists its videos."""
        annotated = [record for record in (*videos, *texts) if 'classes' in record]
        if annotated:
            raise ValueError(
                f'CaptionClasses: {len(annotated)} of {len(videos) + len(texts)} records have '
                'classes; leave `classes` out for a dataset that annotates them'
            )
        parsed = [self._parse(text) for text in texts]
        captions: list[list[Classes]] = [[] for _ in videos]
        for text, classes in zip(texts, parsed):
            text.update(_labels(classes))
            for v in text['video_idx']:
                captions[v].append(classes)
        for video, of_video in zip(videos, captions):
            video.update(_labels(self._common(of_video)))
        return videos, texts

    def _common(self, captions: list[Classes]) -> Classes:
        """Return the classes that enough captions of a video have."""
        enough = self.share * len(captions) - 1e-9  # despite rounding a fifth of 10 is 2
        verbs = _at_least(enough, [classes.verbs for classes in captions])
        nouns = _at_least(enough, [classes.nouns for classes in captions])
        named = _distinct(action for classes in captions for action in classes.actions)
        return Classes(verbs, nouns, [(v, n) for v, n in named if v in verbs and n in nouns])

    def _tagged(self, method: Method, text: dict[str, Any]) -> Classes:
        tagged = tag(text['text'], method)
        verbs = [lemma(word, 'VERB') for word, kind in tagged if kind == 'VERB']
        nouns = [lemma(word, 'NOUN') for word, kind in tagged if kind == 'NOUN']
        numbers = {word: class_number(word) for word in (*verbs, *nouns)}
        self.names.update((number, word) for word, number in numbers.items())
        return Classes(
            _distinct(numbers[verb] for verb in verbs),
            _distinct(numbers[noun] for noun in nouns),
            _distinct((numbers[verb], numbers[noun]) for verb, noun in actions(tagged)),
        )


@cache
def class_number(word: str) -> int:
    """Return a 48-bit class number of a word, the same on every machine."""
    return int.from_bytes(hashlib.sha256(word.encode()).digest()[:6], 'big')


def actions(tagged: Sequence[tuple[str, Tag]]) -> list[tuple[str, str]]:
    """Return each verb's lemma with its nouns (see :class:`CaptionClasses`); may repeat."""
    graph = clauses(tagged)
    verbs = [lemma(tagged[position][0], 'VERB') for position in graph.verbs]
    nouns = [lemma(tagged[run[-1]][0], 'NOUN') for run in graph.nouns]
    return [(verbs[verb], nouns[noun]) for verb, noun in graph.objects]


class _FromFile:
    """Classes of texts, read from a json file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = read_json(path, ())

    def __call__(self, text: dict[str, Any]) -> Classes:
        text_id = text['text_id']
        if text_id not in self.content:
            raise UnknownKey(f'{name_of(self.path)} has no classes for text {shown(text_id)}')
        verbs, nouns = (self._numbers(text_id, kind) for kind in ('verb', 'noun'))
        return Classes(verbs, nouns, [(verb, noun) for verb in verbs for noun in nouns[:1]])

    def _numbers(self, text_id: str, kind: str) -> list[int]:
        place = Place(self.path).key(text_id)
        numbers = field(mapping(self.content[text_id], place), kind, listing, place)
        for value in numbers:
            if type(value) is not int or not 0 <= value < MOST:
                raise wrong(place.at(repr(kind)), 'a list of numbers from 0', numbers)
        return _distinct(numbers)


def _labels(classes: Classes) -> dict[str, Any]:
    return dict(
        classes=dict(verb=list(classes.verbs), noun=list(classes.nouns)),
        actions=list(classes.actions),
    )


def _at_least(count: float, sets: Sequence[Sequence[int]]) -> list[int]:
    """Return the members of at least ``count`` of the sets, in order of first occurrence."""
    return [item for item, times in Counter(chain(*sets)).items() if times >= count]


def _distinct(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))
