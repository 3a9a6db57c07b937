"""Agreement of texts and videos from word co-occurrence in the captions of clips that have several.

It never sees a frame, so its errors are not those of a model that looks at clips.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple, Sequence

import numpy as np
from mmengine.dist import broadcast_object_list

from mmvtr.datasets.records import Records, texts_of
from mmvtr.functional.values import check_range
from mmvtr.registry import TASK_UTILS

#: Captions per chunk: bags of 2,048 words take 64 MB.
ROWS = 4096


@TASK_UTILS.register_module()
class CaptionAgreement:
    """Record transform that gives texts and videos vectors whose product is their ``agreement``.

        pmi_wu = log (n_wu + prior) / (e_wu + prior)
        mean_tv = mean of pmi_wu over words w of t and u of v's captions / its deviation
        agreement_tv = (mean_tv + canonical * cosine_tv / its deviation) / deviation of the sum

    n_wu counts how often w and u occur in different captions of one clip ("hops" and "bounces" do,
    "red" and "blue" do not), e_wu is the count expected by chance; of K captions each pair counts
    1 / (K - 1), so that a caption counts once.  In the means a word is weighted by how informative
    it is: ``log ((1 + N) / (1 + n_w))`` of N captions of which n_w have it, times the square root
    of the norm of its row of pmi, which is near 0 for "the"; captions of a clip have equal weight.
    A mean of products is a product of means, so that pairs are never enumerated: vectors use the
    ``dim`` eigenvectors of pmi with the largest absolute eigenvalues.

    The cosine compares captions as a whole, while the mean compares single words: it uses the
    ``dim`` directions in which captions of one clip correlate most (canonical correlation analysis;
    a caption is its words, scaled to unit length), each scaled by its correlation; a clip is the
    mean of its captions.  Rank 0 computes the directions for all processes.

    The unit of the product is one standard deviation over all pairs of the set.  A text without a
    known word from a clip of several captions is a zero vector: it agrees with nothing, and shrinks
    the mean of its clip.

    On real captions with human judgments, both additions help
    (projects/lab/evidence/pages/judged_training.md); with ``canonical=0, rare=False`` the vectors
    are those of the method without the additions.

    Args:
        dim: D, dimensions of each of the two parts; the number of words, the maximum, is exact.
        words: size of the vocabulary, the most frequent words.
        prior: pseudo-count added to both counts.
        canonical: weight of the cosine in standard deviations; 0 = without the cosine.
        ridge: noise added to the covariance of captions, in units of captions.
        rare: weight words as above; False = by the norm of their rows of pmi alone.

    Attributes:
        known: the vocabulary, once called.

    Raises:
        ValueError: ``dim`` or ``words`` below 1, a prior or ridge that is not positive, canonical
            below 0; (called) no video has two captions.

    Source: Hotelling, "Relations between two sets of variates", Biometrika 1936.
    """

    of_what_stays = True

    def __init__(
        self,
        *,
        dim: int = 128,
        words: int = 2048,
        prior: float = 0.3,
        canonical: float = 0.5,
        ridge: float = 1.0,
        rare: bool = True,
    ) -> None:
        check_range('[1, inf]', dim=dim, words=words)
        check_range('(0, inf]', prior=prior, ridge=ridge)
        check_range('[0, inf]', canonical=canonical)
        self.dim = dim
        self.words = words
        self.prior = prior
        self.canonical = canonical
        self.ridge = ridge
        self.rare = rare
        self.known: list[str] = []

    def __call__(self, videos: Records, texts: Records) -> tuple[Records, Records]:
        """Add ``agreement`` in place; each text's ``video_idx`` says which videos it describes."""
        self.known, frequency, bags, owners = read_captions(videos, texts, self.words)
        parts = [self._means(bags, owners, np.log((1 + len(texts)) / (1 + frequency)))]
        if self.canonical:
            parts.append(self._cosines(bags, owners))
        joined = [np.concatenate(sides, axis=1) for sides in zip(*parts)]
        joined[1] /= _deviation(*joined)
        for records, vectors in zip((texts, videos), joined):
            for record, vector in zip(records, vectors.astype(np.float32)):
                record['agreement'] = vector
        return videos, texts

    def _means(
        self, bags: Sequence[Sequence[int]], owners: Sequence[Sequence[int]], idf: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors of texts [T, D] and videos [V, D] whose products are means of pmi, scaled
        to standard deviation 1."""
        pmi = word_pmi(bags, owners, len(self.known), self.prior)
        values, basis = largest_directions(pmi, self.dim)
        tells = np.linalg.norm(pmi, axis=1)
        texts = _means(bags, basis, np.sqrt(tells) * idf if self.rare else tells)
        videos = _of_videos(texts, owners) * values
        return texts, videos / _deviation(texts, videos)

    def _cosines(
        self, bags: Sequence[Sequence[int]], owners: Sequence[Sequence[int]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors of texts [T, D] and videos [V, D] whose products are cosines, scaled to
        standard deviation ``canonical``."""
        within, between, mean = caption_covariances(bags, owners, len(self.known))
        noise = self.ridge / max(sum(len(captions) for captions in owners if len(captions) > 1), 1)
        basis = same_on_all(canonical_directions(within, between, noise, self.dim))
        has_words = np.array([bool(bag) for bag in bags])[:, None]
        texts = (_projected(bags, basis) - mean @ basis) * has_words
        videos = _units(_of_videos(texts, owners))
        texts = _units(texts)
        return texts, videos * (self.canonical / _deviation(texts, videos))


def word_pmi(
    bags: Sequence[Sequence[int]], owners: Sequence[Sequence[int]], words: int, prior: float
) -> np.ndarray:
    """Return the pointwise mutual information of words in different captions of one video.

    Args:
        bags: the distinct words of each caption, as numbers below ``words``.
        owners: the captions of each video.
        words: W.
        prior: added to both counts.

    Returns:
        float64 [W, W], symmetric.

    Raises:
        ValueError: no video has two captions.
    """
    pairs = count_pairs(bags, owners, words)
    expected = np.outer(pairs.alone, pairs.alone) / pairs.captions
    return np.log((pairs.together + prior) / (expected + prior))


def caption_covariances(
    bags: Sequence[Sequence[int]], owners: Sequence[Sequence[int]], words: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return covariances of captions, as unit word vectors, over the videos that have several.

    Args:
        bags, owners, words: see :func:`word_pmi`.

    Returns:
        float64 [W, W] of a caption with itself, [W, W] with another one of its video, each caption
        counted once, and the mean [W].
    """
    within, between = np.zeros((words, words)), np.zeros((words, words))
    total, count = np.zeros(words), 0
    for captions in owners:
        if len(captions) < 2:
            continue
        matrix = _units(bag_rows([bags[t] for t in captions], words))
        present = np.flatnonzero(matrix.any(0))
        matrix = matrix[:, present]
        itself, sums = matrix.T @ matrix, matrix.sum(0)
        place = np.ix_(present, present)
        within[place] += itself
        between[place] += (np.outer(sums, sums) - itself) / (len(captions) - 1)
        total[present] += sums
        count += len(captions)
    mean = total / count
    return tuple(x / count - np.outer(mean, mean) for x in (within, between)) + (mean,)


def canonical_directions(
    within: np.ndarray, between: np.ndarray, noise: float, dim: int
) -> np.ndarray:
    """Return x of largest ``x' between x`` with ``x' (within + noise) x = 1``, times that value.

    A projection is thus the expected projection of another caption of the same video; directions of
    negative correlation are 0.

    Args:
        within, between: float64 [W, W], symmetric.
        noise: added to the diagonal of ``within``.
        dim: D, the maximum number of directions.

    Returns:
        float64 [W, min(D, W)].
    """
    lower = np.linalg.cholesky(within + noise * np.eye(len(within)))
    half = np.linalg.solve(lower, between)
    values, basis = np.linalg.eigh(np.linalg.solve(lower, half.T))
    most = np.argsort(-values, kind='stable')[:dim]
    return np.linalg.solve(lower.T, basis[:, most]) * values[most].clip(min=0.0)


def _of_videos(texts: np.ndarray, owners: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the means over each video's texts, float64 [V, D]; 0 without a text."""
    means = np.zeros((len(owners), texts.shape[1]))
    for mean, captions in zip(means, owners):
        if captions:
            mean[:] = texts[list(captions)].mean(0)
    return means


def _units(rows: np.ndarray) -> np.ndarray:
    """Return rows scaled to unit length; zero rows stay zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)


def _means(bags: Sequence[Sequence[int]], basis: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted means of words' rows of ``basis``, float64 [N, D]; 0 without words."""
    parts: list[np.ndarray] = []
    for start in range(0, len(bags), ROWS):
        weighted = bag_rows(bags[start : start + ROWS], len(basis))
        weighted *= weights
        total = weighted.sum(1, keepdims=True)
        parts.append(weighted @ basis / np.where(total > 0, total, 1.0))
    return np.concatenate(parts)


def _projected(bags: Sequence[Sequence[int]], basis: np.ndarray) -> np.ndarray:
    """Return captions, as unit word vectors, projected on ``basis`` [W, D]: float64 [N, D]."""
    starts = range(0, len(bags), ROWS)
    return np.concatenate(
        [_units(bag_rows(bags[n : n + ROWS], len(basis))) @ basis for n in starts]
    )


def _deviation(texts: np.ndarray, videos: np.ndarray) -> float:
    """Return the standard deviation of all products of rows of [T, D] and [V, D], in O(T + V)."""
    moments = [rows.T @ rows / len(rows) for rows in (texts, videos)]
    square = float((moments[0] * moments[1]).sum())
    variance = square - float(texts.mean(0) @ videos.mean(0)) ** 2
    return float(np.sqrt(variance)) if variance > 1e-12 * square else 1.0


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
    """Return bags of words; ``texts`` hold ``text`` and ``video_idx``, their videos' positions."""
    captions = [sorted(set(WORD.findall(text['text'].lower()))) for text in texts]
    frequency = Counter(word for caption in captions for word in caption)
    vocabulary = [word for word, _ in frequency.most_common(words)]
    number = {word: n for n, word in enumerate(vocabulary)}
    bags = [[number[word] for word in caption if word in number] for caption in captions]
    counts = np.array([frequency[word] for word in vocabulary])
    return CaptionBags(vocabulary, counts, bags, texts_of(texts, len(videos)))


class WordPairs(NamedTuple):
    """Co-occurrence counts of words in the captions of videos that have several.

    Attributes:
        together: float64 [W, W], symmetric: how often two words occur in different captions of one
            video; of K captions each pair counts 1 / (K - 1), so that a caption counts once.
        alone: float64 [W], captions that have the word.
        captions: number of captions.
    """

    together: np.ndarray
    alone: np.ndarray
    captions: int


def count_pairs(
    bags: Sequence[Sequence[int]], owners: Sequence[Sequence[int]], words: int
) -> WordPairs:
    """Count co-occurrences of words in different captions of one video.

    Args:
        bags: the different words of each caption, numbers below ``words``.
        owners: the captions of each video.
        words: W.

    Raises:
        ValueError: no video has two captions.
    """
    several = [captions for captions in owners if len(captions) > 1]
    if not several:
        raise ValueError(
            f'none of {len(owners)} videos has two captions, so that nothing says which words go '
            'together; leave `agreement` out for such a dataset'
        )
    together, alone = np.zeros((words, words)), np.zeros(words)
    for captions in several:
        matrix = bag_rows([bags[t] for t in captions], words)
        present = np.flatnonzero(matrix.any(0))
        matrix = matrix[:, present]
        total = matrix.sum(0)
        both = np.outer(total, total) - matrix.T @ matrix
        together[np.ix_(present, present)] += both / (len(captions) - 1)
        alone[present] += total
    return WordPairs(together, alone, sum(map(len, several)))


def bag_rows(bags: Sequence[Sequence[int]], words: int) -> np.ndarray:
    """Return bags of words as binary rows, float64 [N, W]."""
    matrix = np.zeros((len(bags), words))
    for row, bag in zip(matrix, bags):
        row[list(bag)] = 1.0
    return matrix


def largest_directions(matrix: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the D eigenvalues of largest magnitude of a symmetric [W, W], and vectors [W, D].

    All processes get those of rank 0: products of vectors computed by different processes would be
    silently wrong.
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
