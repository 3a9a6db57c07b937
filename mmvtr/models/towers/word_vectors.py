"""A text tower that is a table of word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import numpy as np
import torch
from torch import Tensor, nn

from mmvtr.models.layers.pooling import mean_of_units
from mmvtr.models.towers.base import check_text
from mmvtr.registry import MODELS
from mmvtr.storage import read_plain


@MODELS.register_module()
class WordVectors(nn.Module):
    """Trained vectors of words, from GloVe's if there is a file of them.

    Args:
        words: rows of the table, at least as many as the vocabulary has.
        dim: width of a vector.
        pretrained: file of the first rows, float [n, dim] with n <= ``words``: ``.npy`` (what
            ``tools/dataset_converters/word_vocabulary.py`` makes), or of ``torch.save``.

    Raises:
        FileNotFoundError: no such file.
        ValueError, RuntimeError: it holds something else.
    """

    def __init__(self, words: int, dim: int = 300, *, pretrained: Optional[str] = None) -> None:
        super().__init__()
        self.dim = dim
        self.table = nn.Embedding(words, dim)
        if pretrained is not None:
            vectors = read_vectors(Path(pretrained), words, dim)
            with torch.no_grad():
                self.table.weight[: len(vectors)] = vectors

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """int64 [T, L] and bool [T, L] -> vectors [T, L, dim], and the mean of unit ones [T, dim].

        Raises:
            ValueError: see :func:`~mmvtr.models.towers.base.check_text`.
        """
        rows = self.table.num_embeddings
        check_text(ids, mask, positions=None, vocabulary=rows, name='WordVectors')
        words = self.table(ids)
        return words, mean_of_units(words, mask)


def read_vectors(path: Path, words: int, dim: int) -> Tensor:
    """The float32 [n, dim] of a file, n <= ``words``; errors as of :class:`WordVectors`."""
    if path.suffix == '.npy':
        try:
            vectors = torch.from_numpy(np.load(path, allow_pickle=False))
        except (ValueError, EOFError, TypeError, AttributeError) as error:
            raise ValueError(f'{path} is no npy file of numbers: {str(error)[:80]}') from error
    else:
        vectors = read_plain(path, kind='word vectors')
    shape = list(vectors.shape) if isinstance(vectors, Tensor) else type(vectors).__name__
    if not isinstance(vectors, Tensor) or vectors.shape[1:] != (dim,) or len(vectors) > words:
        raise ValueError(f'{path}: expected at most {words} vectors of width {dim}, found {shape}')
    vectors = vectors.float()
    wrong = ~vectors.isfinite().all(1)
    if wrong.any():
        raise ValueError(
            f'{path}: {int(wrong.sum())} of its {len(vectors)} vectors are not finite (NaN or '
            f'infinite), the first in row {int(wrong.int().argmax())} (from 0): the file is damaged'
        )
    return vectors
