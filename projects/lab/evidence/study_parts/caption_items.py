"""From what is said of an item to its "frames", and from a text to ids of the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from mmcv.transforms import BaseTransform

from mmvtr.registry import TRANSFORMS
from study_parts.known_words import read_words

Results = dict[str, Any]


@TRANSFORMS.register_module()
class CaptionFrames(BaseTransform):
    """Give the word vectors of an item's ``captions``, concatenated, as its ``features``.

    Args:
        words: folder of the words and their vectors, see
            ``projects/lab/flickr8k_words.py``.
        noise: length of what is added to each vector, drawn at every visit; a word's own vector is
            of length 1 on average.  How much worse an item is seen than told.
        max_words: of each caption the first so many.

    Raises:
        FileNotFoundError: no such words.
        ValueError: a noise below 0, ``max_words`` below 1, other files.
    """

    def __init__(self, words: str, *, noise: float = 0.0, max_words: int = 20) -> None:
        if noise < 0 or max_words < 1:
            raise ValueError(
                f'CaptionFrames: noise from 0 and max_words from 1, not {noise} and {max_words}'
            )
        self.known = read_words(Path(words))
        self.noise = noise
        self.max_words = max_words

    def transform(self, results: Results) -> Results:
        """``captions`` -> ``features``, float32 [F, D]."""
        ids = [n for c in results['captions'] for n in self.known.ids(c)[: self.max_words]]
        frames = self.known.vectors[ids]
        if self.noise:
            spread = self.noise / frames.shape[1] ** 0.5
            frames = frames + np.random.normal(0, spread, frames.shape).astype(np.float32)
        results['features'] = frames
        return results


@TRANSFORMS.register_module()
class CaptionWords(BaseTransform):
    """Map the words of ``text`` to ``token_ids``; unknown words share the last id.

    Args:
        words: folder of the words, as of :class:`CaptionFrames`.
        max_words: the first so many.

    Raises:
        FileNotFoundError: no such words.
        ValueError: ``max_words`` below 1, other files.
    """

    def __init__(self, words: str, *, max_words: int = 20) -> None:
        if max_words < 1:
            raise ValueError(f'CaptionWords: max_words must be at least 1, not {max_words}')
        self.known = read_words(Path(words))
        self.limit = max_words

    def surplus(self, record: Results) -> int:
        """How many words of ``text`` are not read."""
        return max(0, len(self.known.ids(record['text'])) - self.limit)

    def transform(self, results: Results) -> Results:
        """``text`` -> ``token_ids``, int64 [L]."""
        ids = self.known.ids(results['text'])[: self.limit]
        results['token_ids'] = np.array(ids, dtype=np.int64)
        return results

    def pieces(self, ids: list[int]) -> list[str]:
        """L ids -> L words."""
        words = [*self.known.numbers, '[unknown]']
        return [words[i] for i in ids]
