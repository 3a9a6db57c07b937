"""Informativeness of each token of a caption: the idf of its word if a noun or a verb (TACo).

From the paper (Yang et al., ICCV 2021): nouns and verbs of a tagger, ``idf = log(|D| / (1 + df))``
over the training captions, pieces inherit the idf of their word, normalised within the text.  Our
choices: idf of the lower-cased word form (no lemma), clipped at 0, normalised to a sum of 1.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any, Iterable, Mapping, NamedTuple, Optional

import torch
from mmcv.transforms import BaseTransform
from torch import Tensor

from mmvtr.datasets.annotation_files import read_json
from mmvtr.datasets.annotation_values import MOST, Place, field, mapping, wrong
from mmvtr.datasets.record_transforms import read_annotations
from mmvtr.datasets.words.part_of_speech import Method, tag, word_spans, words
from mmvtr.functional.values import check_range
from mmvtr.registry import TRANSFORMS

Results = dict[str, Any]


class WordTable(NamedTuple):
    """Document frequency of each word in a set's captions.

    Attributes:
        captions: ``|D|``.
        counts: df by word in lower case.
    """

    captions: int
    counts: Mapping[str, int]

    @classmethod
    def of(cls, sentences: Iterable[str]) -> 'WordTable':
        """Count the words of captions, each once per caption."""
        words_of = [set(words(sentence)) for sentence in sentences]
        return cls(len(words_of), Counter(word for sentence in words_of for word in sentence))

    @classmethod
    def read(cls, path: Path) -> 'WordTable':
        """Read a json file ``{"captions": 9668, "counts": {"onion": 412, ...}}``.

        Raises:
            FileNotFoundError: no such file.
            ValueError: another layout, no word, or a count that is not a number from 0 to that of
                the captions.
        """
        place, content = Place(path), read_json(path, ('captions', 'counts'))
        captions, counts = content['captions'], field(content, 'counts', mapping, place)
        if type(captions) is not int or not 0 < captions < MOST:
            raise wrong(place.key('captions'), 'how many captions were counted', captions)
        if not counts:
            raise wrong(place.key('counts'), 'at least one word and its count', counts)
        for word, count in counts.items():
            if type(count) is not int or not 0 <= count <= captions:
                raise wrong(place.key(word), f'a number of the {captions} captions', count)
        return cls(captions, counts)

    def idf(self, word: str) -> float:
        """Return ``log(|D| / (1 + df))``, at least 0; ``log |D|`` for an unseen word."""
        return max(0.0, math.log(self.captions / (1 + self.counts.get(word, 0))))


@TRANSFORMS.register_module()
class TokensOfInterest(BaseTransform):
    """Weight the tokens of a text for ``encoder.encode_text(..., interest=...)``.

    A token's weight is the idf of the noun or verb that it is part of, and 0 for other words; the
    weights of a text are normalised to sum to 1 over its tokens (so a word of three pieces counts
    three times).  A text without nouns and verbs, or whose nouns and verbs are in every caption,
    has only weights of 0 and contributes nothing.  A word that no training caption has gets the
    largest idf, ``log |D|``.

    Follows a tokenizer with ``spans=True`` (``HFTokenize``, ``WordTokenize``).

    Args:
        counted: the captions from which idf is computed: the config of the training set (only its
            annotations are read). The same for every split: there is no default, since the captions
            of a test set must not be counted.
        counted_file: their counts in place of them, a json file (:meth:`WordTable.read`), which a
            model folder can hold.
        length: maximum tokens of a text, ``max_length`` of the tokenizer.
        method: tagger, ``'rules'`` or ``'spacy'`` (the paper's), see
            :func:`~mmvtr.datasets.words.part_of_speech.tag`.

    Raises:
        ValueError: not one of ``counted`` and ``counted_file``; ``length`` below 1, an unknown
            method, a malformed file; (called) no spans, or
            more than ``length`` tokens.
        FileNotFoundError: no such file.
        ImportError: spaCy is not installed.
    """

    def __init__(
        self,
        *,
        counted: Optional[dict[str, Any]] = None,
        counted_file: Optional[str] = None,
        length: int,
        method: Method = 'rules',
    ) -> None:
        if (counted is None) == (counted_file is None) or isinstance(counted, str):
            raise ValueError(
                'TokensOfInterest: counted=dict(...), the training set, or '
                f"counted_file='FILE.json' expected, got {counted!r:.80} and {counted_file!r:.80}"
            )
        check_range('[1, inf]', length=length)
        tag('', method)  # fails early if spaCy is missing
        self.length, self.method = length, method
        if counted_file is not None:
            self.table = WordTable.read(Path(counted_file))
        else:
            self.table = WordTable.of(text['text'] for text in read_annotations(counted).texts)

    def transform(self, results: Results) -> Results:
        """Set ``text_extra['interest']``, float32 [length], from ``text`` and ``token_spans``."""
        if 'token_spans' not in results:
            raise ValueError(
                'TokensOfInterest needs to know where tokens are in the text: put it behind a '
                'tokenizer with spans=True (HFTokenize or WordTokenize)'
            )
        spans = results['token_spans']
        if len(spans) > self.length:
            raise ValueError(
                f'TokensOfInterest: text {str(results.get("text_id"))[:80]!r} has {len(spans)} '
                f"tokens, length is {self.length}: it must be the tokenizer's max_length"
            )
        interest = self._weights(results['text'], spans)
        results['text_extra'] = {**results.get('text_extra', {}), 'interest': interest}
        return results

    def _weights(self, text: str, spans: Iterable[tuple[int, int]]) -> Tensor:
        words_of = [
            (start, end, self.table.idf(word))
            for (word, kind), (start, end) in zip(tag(text, self.method), word_spans(text))
            if kind != 'OTHER'
        ]
        weights = torch.zeros(self.length, dtype=torch.float64)
        for place, (start, end) in enumerate(spans):
            shared = (idf for first, last, idf in words_of if first < end and start < last)
            weights[place] = max(shared, default=0.0)
        total = weights.sum()
        return (weights / total if total > 0 else weights).float()
