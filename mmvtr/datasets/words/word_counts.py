"""A sentence as the words in it: a vector that nothing has to be learnt or downloaded for."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import numpy as np
from mmcv.transforms import BaseTransform

from mmvtr.registry import TRANSFORMS

Results = dict[str, Any]
_WORD = re.compile(r'\w+')


@TRANSFORMS.register_module()
class WordCounts(BaseTransform):
    """TF-IDF vector of a text's words, scaled to unit length.

    A stand-in for a frozen sentence encoder where captions are of few words (CMGSDSupervision);
    the words and their weights are those of the dataset that it stands in.

    Args:
        name: of the vectors, as in LoadVectors.
    """

    def __init__(self, *, name: str = 'words') -> None:
        self.name = name
        self.weights: dict[str, tuple[int, float]] = {}

    def check(self, texts: list[Results]) -> None:
        """Count all captions; words that occur in every caption get weight 0."""
        counts = Counter(word for text in texts for word in {*_words(text['text'])})
        self.weights = {
            word: (place, math.log(len(texts) / count))
            for place, (word, count) in enumerate(sorted(counts.items()))
        }

    def transform(self, results: Results) -> Results:
        """``text`` -> ``text_vectors``, float32 [1, W] by name; zeros of no word that weighs."""
        row = np.zeros((1, len(self.weights)), np.float32)
        for word in _words(results['text']):
            place, weight = self.weights.get(word, (0, 0.0))
            row[0, place] += weight
        length = np.linalg.norm(row)
        vectors = results.get('text_vectors', {})
        results['text_vectors'] = {**vectors, self.name: row / length if length else row}
        return results


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
