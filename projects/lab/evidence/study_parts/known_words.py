"""A vocabulary with vectors, learnt from captions of the same items: nothing to download."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple, Sequence

import numpy as np

from mmvtr.datasets.annotation_files import read_text
from mmvtr.datasets.annotation_values import Place, problem
from mmvtr.datasets.caption_similarity.caption_agreement import WORD, word_pmi
from mmvtr.storage import read_array, write_atomically
from mmvtr.storage.arrays import write_array

VOCABULARY = 'words.txt'
VECTORS = 'words.npy'


class KnownWords(NamedTuple):
    """A vocabulary with a vector for each word.

    Attributes:
        numbers: word -> 0 to W - 1.
        vectors: float32 [W + 1, D]; the last one, zeros, is that of every other word.
    """

    numbers: dict[str, int]
    vectors: np.ndarray

    def ids(self, caption: str) -> list[int]:
        """Numbers of its words, W for unknown ones; W alone of a caption without a word."""
        unknown = len(self.numbers)
        words = WORD.findall(caption.lower())
        return [self.numbers.get(word, unknown) for word in words] or [unknown]


def learn_words(
    items: Sequence[Sequence[str]], *, dim: int, min_count: int, prior: float = 0.3
) -> KnownWords:
    """Return word vectors whose inner products approximate pointwise mutual information.

    Rows of ``U sqrt(|E|)`` of the pointwise mutual information's ``dim`` eigenvalues E of largest
    size, scaled so that words are of length 1 on average; a word that goes with everything ("a") is
    near 0.

    Args:
        items: the captions of each.
        dim: D.
        min_count: rarer words are unknown.
        prior: see :class:`~mmvtr.datasets.CaptionAgreement`.

    Raises:
        ValueError: no item has two captions, or fewer than ``dim`` words are known.
    """
    words_of_items = [[WORD.findall(caption.lower()) for caption in item] for item in items]
    counts = Counter(word for item in words_of_items for caption in item for word in caption)
    numbers = {
        word: n
        for n, word in enumerate(
            sorted((w for w in counts if counts[w] >= min_count), key=lambda w: (-counts[w], w))
        )
    }
    if len(numbers) < dim:
        raise ValueError(f'{len(numbers)} words occur {min_count} times, dim {dim} needs as many')
    bags, owners = [], []
    for item in words_of_items:
        owners.append([*range(len(bags), len(bags) + len(item))])
        bags += [sorted({numbers[word] for word in caption if word in numbers}) for caption in item]
    values, basis = np.linalg.eigh(word_pmi(bags, owners, len(numbers), prior))
    most = np.argsort(-np.abs(values), kind='stable')[:dim]
    vectors = basis[:, most] * np.sqrt(np.abs(values[most]))
    vectors /= np.linalg.norm(vectors, axis=1).mean()
    return KnownWords(numbers, np.pad(vectors, ((0, 1), (0, 0))).astype(np.float32))


def write_words(folder: Path, known: KnownWords) -> None:
    """Write ``words.txt``, one word a line, and ``words.npy``."""
    words = '\n'.join(known.numbers) + '\n'
    write_atomically(folder / VOCABULARY, lambda file: file.write(words.encode()))
    write_array(folder / VECTORS, known.vectors)


def read_words(folder: Path) -> KnownWords:
    """Return the words that :func:`write_words` wrote.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: not one vector a word and one more, or a word twice.
    """
    try:
        words = read_text(folder / VOCABULARY).split()
        vectors = read_array(folder / VECTORS)
    except FileNotFoundError as error:
        name = VOCABULARY if not (folder / VOCABULARY).exists() else VECTORS
        raise FileNotFoundError(
            f'{folder / name} is missing: projects/lab/flickr8k_words.py makes it'
        ) from error
    if len({*words}) < len(words):
        raise problem(Place(folder / VOCABULARY), 'has a word twice')
    if vectors.ndim != 2 or len(vectors) != len(words) + 1:
        raise problem(
            Place(folder / VECTORS),
            f'expected a vector of each of {len(words)} words and one more, found {vectors.shape}',
        )
    if vectors.dtype.kind != 'f' or not np.isfinite(vectors).all():
        raise problem(Place(folder / VECTORS), 'expected finite vectors, float32')
    return KnownWords({word: n for n, word in enumerate(words)}, vectors)
