"""Captions as sets of known words, how often two words stand in different captions of one video,
and vectors of a matrix that are the same in all processes."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple, Sequence

import numpy as np
from mmengine.dist import broadcast_object_list

from mmvtr.datasets.records import texts_of

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


class CaptionBags(NamedTuple):
    """Captions of a set as bags of words.

    Attributes:
        known: the W most frequent words.
        frequency: int64 [W], how many captions have each.
        bags: of each caption, the numbers of its different known words.
        owners: of each video, the numbers of its captions.
    """

    known: list[str]
    frequency: np.ndarray
    bags: list[list[int]]
    owners: list[list[int]]


def read_captions(
    videos: Sequence[dict[str, Any]], texts: Sequence[dict[str, Any]], words: int
) -> CaptionBags:
    """Of records; ``texts`` hold ``text`` and, by ``video_idx``, whose captions they are."""
    captions = [sorted(set(WORD.findall(text['text'].lower()))) for text in texts]
    frequency = Counter(word for caption in captions for word in caption)
    known = [word for word, _ in frequency.most_common(words)]
    number = {word: n for n, word in enumerate(known)}
    bags = [[number[word] for word in caption if word in number] for caption in captions]
    counts = np.array([frequency[word] for word in known])
    return CaptionBags(known, counts, bags, texts_of(texts, len(videos)))


class WordPairs(NamedTuple):
    """Co-occurrence counts of words in the captions of videos that have several.

    Attributes:
        together: float64 [W, W], symmetric: how often two words stand in different captions of one
            video; of K captions each pair counts 1 / (K - 1), so that a caption counts once.
        alone: float64 [W], captions that have the word.
        captions: how many there are.
    """

    together: np.ndarray
    alone: np.ndarray
    captions: int


def count_pairs(
    bags: Sequence[Sequence[int]], owners: Sequence[Sequence[int]], words: int
) -> WordPairs:
    """Count words in different captions of one video.

    Args:
        bags: the different words of each caption, numbers below ``words``.
        owners: the captions of each video.
        words: W.

    Raises:
        ValueError: no video has two captions.
    """
    several = [own for own in owners if len(own) > 1]
    if not several:
        raise ValueError(
            f'none of {len(owners)} videos has two captions, so that nothing says which words go '
            'together; leave `agreement` out for such a dataset'
        )
    together, alone = np.zeros((words, words)), np.zeros(words)
    for own in several:
        matrix = bag_rows([bags[t] for t in own], words)
        present = np.flatnonzero(matrix.any(0))
        matrix = matrix[:, present]
        total = matrix.sum(0)
        both = np.outer(total, total) - matrix.T @ matrix
        together[np.ix_(present, present)] += both / (len(own) - 1)
        alone[present] += total
    return WordPairs(together, alone, sum(map(len, several)))


def bag_rows(bags: Sequence[Sequence[int]], words: int) -> np.ndarray:
    """Return bags of words as float64 [N, W] of 0 and 1."""
    matrix = np.zeros((len(bags), words))
    for row, bag in zip(matrix, bags):
        row[list(bag)] = 1.0
    return matrix


def largest_directions(matrix: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest eigenvalues [D] by size of a symmetric [W, W], and their vectors [W, D].

    They are those of rank 0 on all processes: products of vectors that two processes made would be
    wrong without a word.
    """
    values, basis = np.linalg.eigh(matrix)
    most = np.argsort(-np.abs(values), kind='stable')[:dim]
    both = same_on_all(np.concatenate([values[most][None], basis[:, most]]))
    return both[0], both[1:]


def same_on_all(array: np.ndarray) -> np.ndarray:
    """Return rank 0's array on all ranks: signs and rotations of eigenvectors differ by machine."""
    of_rank_0 = [array]
    broadcast_object_list(of_rank_0)
    return of_rank_0[0]
