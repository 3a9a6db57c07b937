"""Vectors of a guide (GISTEmbed; Solatorio, 2024) for sentence-transformers' columns.

The guide encodes documents that are texts, and for a video or an image its annotated text.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from torch import Tensor

from mmvtr.models.supervisions.stored_vectors import PREFIX

#: Name of the guide's level, the default of GuideSupervision.
LEVEL = f'{PREFIX}guide'


class Reader:
    """Recovers texts from the student's token ids for a guide with another tokenizer.

    Args:
        guide: a model with ``encode(list of str, convert_to_tensor=True)``, like a
            SentenceTransformer; with any tokenizer.
        tokenizer: the student's tokenizer.
    """

    def __init__(self, guide: Any, tokenizer: Any) -> None:
        if not hasattr(tokenizer, 'batch_decode'):
            raise ValueError('a guide reads texts, and this model has no tokenizer to read them by')
        self.guide, self.tokenizer = guide, tokenizer

    @torch.no_grad()
    def read(self, columns: Sequence[dict[str, Any]], *, texts_only: str = '') -> list[Tensor]:
        """Return the guide's vectors of each column, float [N, D].

        Args:
            columns: features of the texts, of their documents, and of hard negatives.
            texts_only: name of a reader that needs texts in all columns; '': the first one.

        Returns:
            float [N, D] per column; zeros for hard negatives that are not texts, which the guide
            cannot judge.

        Raises:
            ValueError: the first column has no texts, or one has none that needs them.
        """
        texts = self._encode(columns[0])
        if texts is None:
            raise ValueError(
                'a guide reads texts, and the first column has none: make the texts the first one'
            )
        others = [n for n, column in enumerate(columns) if not is_text(column)]
        if texts_only and others:
            raise ValueError(f'{texts_only} reads texts, and column {others[0]} has none')
        results = [texts]
        for number, column in enumerate(columns[1:]):
            vectors = self._encode(column)
            if vectors is None:
                vectors = texts if number == 0 else torch.zeros_like(texts)
            results.append(vectors)
        return results

    def _encode(self, column: dict[str, Any]) -> Optional[Tensor]:
        if not is_text(column):
            return None
        texts = self.tokenizer.batch_decode(column['input_ids'], skip_special_tokens=True)
        vectors = self.guide.encode(texts, convert_to_tensor=True, show_progress_bar=False)
        return torch.as_tensor(vectors).clone().to(column['input_ids'].device, torch.float32)


def is_text(column: dict[str, Any]) -> bool:
    """Return whether a column's features contain only texts."""
    seen = any(key.startswith(('pixel_values', 'input_features', 'input_values')) for key in column)
    return 'input_ids' in column and not seen
