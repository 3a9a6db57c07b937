"""Ids of words, in the layout of HGR's ``word2int.json``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Iterable, Mapping, Sequence

import numpy as np

from mmvtr.datasets.annotation_files import read_json
from mmvtr.datasets.annotation_values import MOST, Place, wrong

#: Special ids 0, 1 and 2; begin and end are unused, since the batch is padded later.
SPECIAL = ('<bos>', '<eos>', '<unk>')
UNKNOWN = 2


def read_word_ids(path: Path) -> dict[str, int]:
    """Return a json object from words to ids, 3 and up; ids 0 to 2 are special, 2 = unknown.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not json, or an id that is not a number or is below 3.
    """
    ids = read_json(path, keys=())
    for word, number in ids.items():
        least = 0 if word.startswith('<') else UNKNOWN + 1
        if type(number) is not int or not least <= number < MOST:
            raise wrong(Place(path).key(word), f'an id, a number from {least}', number)
    return ids


def word_ids(words: Sequence[str], ids: Mapping[str, int]) -> np.ndarray:
    """Return the ids of words, int64 [L]; 2 for unknown words."""
    return np.array([ids.get(word, UNKNOWN) for word in words], dtype=np.int64)


def make_word_ids(sentences: Iterable[Sequence[str]], *, min_count: int) -> dict[str, int]:
    """Return ids of words above a minimum count, most frequent first, ties alphabetical.

    Args:
        sentences: the words of each sentence.
        min_count: rarer words share the unknown word's vector.
    """
    counts = Counter(word for sentence in sentences for word in sentence)
    frequent = [word for word, count in counts.items() if count >= min_count]
    frequent.sort(key=lambda word: (-counts[word], word))
    return {word: i for i, word in enumerate((*SPECIAL, *frequent))}
