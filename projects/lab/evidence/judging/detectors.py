"""What tells, from words alone, which captions hold for items that nobody annotated them to."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np
from scipy import sparse

from judging.words import words
from mmvtr.datasets import CaptionAgreement, CaptionImplication, SummedCaptionSimilarity


class Pairs(NamedTuple):
    """Judged pairs of a text and an item that is not its own: places int64 [N], and bool [N]."""

    texts: np.ndarray
    items: np.ndarray
    right: np.ndarray


class Captions(NamedTuple):
    """A set of captions, and what people say of pairs.

    Attributes:
        others: captions of each further item, from which words may be learnt.
        items: captions of each item.
        texts: captions that ask.
        pairs: by name.
    """

    others: Sequence[Sequence[str]]
    items: Sequence[Sequence[str]]
    texts: Sequence[str]
    pairs: Mapping[str, Pairs]


#: From places of texts and items, int64 [N] each, to how likely the pairs are right, float [N].
Scores = Callable[[np.ndarray, np.ndarray], np.ndarray]


def length(data: Captions) -> Scores:
    """A short caption is general, and so holds for more."""
    counts = np.array([len(words(text)) for text in data.texts], dtype=float)
    return lambda texts, items: -counts[texts]


def generality(data: Captions) -> Scores:
    """A caption of frequent words is general: the negative sum of idf."""
    idf = _idf(data)
    sums = np.array([sum(idf.get(w, max(idf.values())) for w in {*words(t)}) for t in data.texts])
    return lambda texts, items: -sums[texts]


def tfidf(data: Captions) -> Scores:
    """Cosine with an item's captions as one text."""
    idf = _idf(data)
    texts = _bags([[text] for text in data.texts], idf)
    items = _bags(data.items, idf)
    return lambda t, v: _products(texts, items, t, v)


def closest(data: Captions) -> Scores:
    """The largest TF-IDF cosine with one of an item's captions."""
    idf, most = _idf(data), max(map(len, data.items))
    texts = _bags([[text] for text in data.texts], idf)
    parts = [_bags([item[n : n + 1] for item in data.items], idf) for n in range(most)]
    return lambda t, v: np.max([_products(texts, part, t, v) for part in parts], axis=0)


def covered(data: Captions) -> Scores:
    """Share of a text's idf that is of words in the item's captions."""
    idf = _idf(data)
    weights = [{w: idf[w] for w in words(text) if w in idf} for text in data.texts]
    said = [{w for caption in item for w in words(caption)} for item in data.items]

    def scores(texts: np.ndarray, items: np.ndarray) -> np.ndarray:
        found = []
        for t, v in zip(texts, items):
            total = sum(weights[t].values())
            found.append(sum(x for w, x in weights[t].items() if w in said[v]) / (total or 1.0))
        return np.array(found)

    return scores


def agreement(
    change: Callable[[str], str] = str, kind: type = CaptionAgreement, **options: Any
) -> Callable[[Captions], Scores]:
    """Products of a witness' vectors, a text that asks being alone with a video.

    Args:
        change: of each caption, first.
        kind: the witness.
        **options: of its class.
    """

    def detector(data: Captions) -> Scores:
        videos: list[dict[str, Any]] = []
        texts: list[dict[str, Any]] = []
        for item in (*data.items, *data.others, *([text] for text in data.texts)):
            texts += [dict(text=change(c), video_idx=[len(videos)]) for c in item]
            videos.append({})
        kind(**options)(videos, texts)
        asks = np.stack([text['agreement'] for text in texts[-len(data.texts) :]])
        items = np.stack([video['agreement'] for video in videos[: len(data.items)]])
        return lambda t, v: np.einsum('nd,nd->n', asks[t], items[v])

    return detector


def lemmas(caption: str) -> str:
    """Each word as simplemma's lemma of it."""
    return ' '.join(map(_lemma, words(caption)))


def phrases(caption: str) -> str:
    """The words, and each two neighbours as one word."""
    own = words(caption)
    return ' '.join([*own, *map("'".join, zip(own, own[1:]))])


@cache
def _lemma(word: str) -> str:
    try:
        from simplemma import lemmatize
    except ImportError as error:
        raise ImportError('lemmas need `pip install mmvtr[lemmas]` (simplemma)') from error
    return lemmatize(word, 'en').lower()


BOTH_PARTS = [dict(type='CaptionAgreement'), dict(type='CaptionImplication', mean=True)]
#: CaptionAgreement as it was before people had judged it.
BEFORE = dict(canonical=0.0, rare=False)
DETECTORS: Mapping[str, Callable[[Captions], Scores]] = {
    'length (short)': length,
    'frequent words': generality,
    'TF-IDF': tfidf,
    'TF-IDF, closest caption': closest,
    'share of words covered, by idf': covered,
    'agreement before': agreement(**BEFORE),
    'agreement, rare words': agreement(canonical=0.0),
    'agreement (default)': agreement(),
    'the default, dim 256': agreement(dim=256),
    'the default, lemmas': agreement(lemmas),
    'the default, phrases (3,072 words)': agreement(phrases, words=3072),
    'implication': agreement(kind=CaptionImplication),
    'implication, mean of words': agreement(kind=CaptionImplication, mean=True),
    # Of these two the better one on the half for choosing was taken.
    **{
        f'agreement + {weight:g} implication': agreement(
            kind=SummedCaptionSimilarity, parts=BOTH_PARTS, weights=[1.0, weight]
        )
        for weight in (0.5, 2.0)
    },
}
BASE, DEFAULT, BOTH = 'agreement before', 'agreement (default)', 'agreement + 2 implication'


def _idf(data: Captions) -> dict[str, float]:
    captions = [caption for item in (*data.others, *data.items) for caption in item]
    counts = Counter(word for caption in captions for word in {*words(caption)})
    return {word: math.log((1 + len(captions)) / (1 + n)) + 1 for word, n in counts.items()}


def _bags(items: Sequence[Sequence[str]], idf: Mapping[str, float]) -> sparse.csr_matrix:
    """Unit rows of counts times idf."""
    place = {word: n for n, word in enumerate(idf)}
    rows, columns, values = [], [], []
    for n, item in enumerate(items):
        counts = Counter(word for c in item for word in words(c) if word in place)
        length = math.sqrt(sum((times * idf[word]) ** 2 for word, times in counts.items()))
        for word, times in counts.items():
            rows.append(n)
            columns.append(place[word])
            values.append(times * idf[word] / length)
    return sparse.csr_matrix((values, (rows, columns)), shape=(len(items), len(place)))


def _products(
    texts: sparse.csr_matrix, items: sparse.csr_matrix, t: np.ndarray, v: np.ndarray
) -> np.ndarray:
    return np.asarray(texts[t].multiply(items[v]).sum(1)).ravel()
