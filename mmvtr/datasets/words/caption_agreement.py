"""Clips with several captions say which words go together: a second view of who matches whom.

It never sees a frame, so its errors are not those of a model that looks at clips.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Sequence

import numpy as np
from mmengine.dist import broadcast_object_list

from mmvtr.registry import TASK_UTILS

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
#: Captions at a time: bags of 2,048 words are 64 MB.
ROWS = 4096


@TASK_UTILS.register_module()
class CaptionAgreement:
    """Give every text and video a vector ``agreement``; their product says how well they agree.

        pmi_wu = log (n_wu + prior) / (e_wu + prior)
        agreement_tv = mean of pmi_wu over words w of t and u of v's captions / its deviation

    n_wu is how often w and u stand in different captions of one clip ("hops" and "bounces" do,
    "red" and "blue" do not), e_wu how often by chance; of K captions each pair counts 1 / (K - 1),
    so that a caption counts once.  In the means a word weighs as much as it tells: the norm of its
    row of pmi, which is near 0 for "the"; captions of a clip weigh the same.  A mean of products is
    a product of means, so that no pair is ever looked at: vectors are made of the ``dim``
    eigenvectors of pmi that matter most, by rank 0 for all processes.

    The product is 0 for words that meet by chance, and its unit is one standard deviation over all
    pairs of the set.  A text without a word that is known and stands in a clip of several captions
    is a zero vector: it agrees with none, and thins the mean of its clip.

    Args:
        dim: D, of the vectors; as many as there are words, which is the most, is exact.
        words: how many are known, the most frequent ones.
        prior: pairs that are added to both counts.

    Attributes:
        known: the words, once called.

    Raises:
        ValueError: ``dim`` or ``words`` below 1, a prior that is not positive; (called) no video
            has two captions.
    """

    def __init__(self, *, dim: int = 128, words: int = 2048, prior: float = 0.3) -> None:
        for name, size in (('dim', dim), ('words', words)):
            if size < 1:
                raise ValueError(f'CaptionAgreement: {name} must be at least 1, not {size}')
        if not prior > 0:
            raise ValueError(f'CaptionAgreement: prior must be positive, not {prior}')
        self.dim = dim
        self.words = words
        self.prior = prior
        self.known: list[str] = []

    def __call__(self, videos: list[dict[str, Any]], texts: list[dict[str, Any]]) -> None:
        """Add them in place; ``texts`` say by ``video_idx`` whose captions they are."""
        captions = [sorted(set(WORD.findall(text['text'].lower()))) for text in texts]
        frequency = Counter(word for caption in captions for word in caption)
        self.known = [word for word, _ in frequency.most_common(self.words)]
        number = {word: n for n, word in enumerate(self.known)}
        bags = [[number[word] for word in caption if word in number] for caption in captions]
        owners: list[list[int]] = [[] for _ in videos]
        for t, text in enumerate(texts):
            for v in text['video_idx']:
                owners[v].append(t)
        pmi = word_pmi(bags, owners, len(self.known), self.prior)
        values, basis = _largest(pmi, self.dim)
        text_vectors = _means(bags, basis, np.linalg.norm(pmi, axis=1))
        video_vectors = np.zeros((len(videos), len(values)))
        for v, own in enumerate(owners):
            if own:
                video_vectors[v] = text_vectors[own].mean(0) * values
        video_vectors /= _deviation(text_vectors, video_vectors)
        for records, vectors in ((texts, text_vectors), (videos, video_vectors)):
            for record, vector in zip(records, vectors.astype(np.float32)):
                record['agreement'] = vector


def word_pmi(
    bags: Sequence[Sequence[int]], owners: Sequence[Sequence[int]], words: int, prior: float
) -> np.ndarray:
    """Pointwise mutual information of words in different captions of one video.

    Args:
        bags: the different words of each caption, numbers below ``words``.
        owners: the captions of each video.
        words: W.
        prior: added to both counts.

    Returns:
        float64 [W, W], symmetric.

    Raises:
        ValueError: no video has two captions.
    """
    pairs = np.zeros((words, words))
    counts = np.zeros(words)
    several = [own for own in owners if len(own) > 1]
    if not several:
        raise ValueError(
            f'CaptionAgreement: none of {len(owners)} videos has two captions, so that nothing '
            'says which words go together; leave `agreement` out for such a dataset'
        )
    for own in several:
        matrix = _bags([bags[t] for t in own], words)
        present = np.flatnonzero(matrix.any(0))
        matrix = matrix[:, present]
        total = matrix.sum(0)
        both = np.outer(total, total) - matrix.T @ matrix
        pairs[np.ix_(present, present)] += both / (len(own) - 1)
        counts[present] += total
    expected = np.outer(counts, counts) / sum(map(len, several))
    return np.log((pairs + prior) / (expected + prior))


def _largest(matrix: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues [D] of largest size and their vectors [W, D], the same on all processes.

    Their signs, and turns among equal ones, are up to the machine; products of vectors that two
    processes made would be wrong without a word.
    """
    values, basis = np.linalg.eigh(matrix)
    most = np.argsort(-np.abs(values), kind='stable')[:dim]
    of_rank_0 = [values[most], basis[:, most]]
    broadcast_object_list(of_rank_0)
    return of_rank_0[0], of_rank_0[1]


def _bags(bags: Sequence[Sequence[int]], words: int) -> np.ndarray:
    """Float64 [N, W] of 0 and 1."""
    matrix = np.zeros((len(bags), words))
    for row, bag in zip(matrix, bags):
        row[list(bag)] = 1.0
    return matrix


def _means(bags: Sequence[Sequence[int]], basis: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Float64 [N, D], the weighted mean of the words' rows of ``basis``; 0 without a word."""
    parts: list[np.ndarray] = []
    for start in range(0, len(bags), ROWS):
        weighted = _bags(bags[start : start + ROWS], len(basis))
        weighted *= weights
        total = weighted.sum(1, keepdims=True)
        parts.append(weighted @ basis / np.where(total > 0, total, 1.0))
    return np.concatenate(parts)


def _deviation(texts: np.ndarray, videos: np.ndarray) -> float:
    """Standard deviation of all products of a row of [T, D] and one of [V, D], without a matrix."""
    moments = [rows.T @ rows / len(rows) for rows in (texts, videos)]
    square = float((moments[0] * moments[1]).sum())
    variance = square - float(texts.mean(0) @ videos.mean(0)) ** 2
    return float(np.sqrt(variance)) if variance > 1e-12 * square else 1.0
