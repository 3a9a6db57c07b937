"""Towers of precomputed features: frames, words, and a table of word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import numpy as np
import torch
from torch import Tensor, nn

from mmvtr.models.layers.pooling import mean_of_units
from mmvtr.models.towers.base import check_text
from mmvtr.registry import MODELS
from mmvtr.storage import read_array, read_plain


@MODELS.register_module()
class WordVectors(nn.Module):
    """Trained vectors of words, initialised from a file such as GloVe's if given.

    Words that the file lacks begin uniform in +-``dim**-0.5``, as HGR's.

    Args:
        words: rows of the table, at least the size of the vocabulary.
        dim: width of a vector.
        pretrained: file of the first rows, float [n, dim] with n <= ``words``: ``.npy`` (from
            ``tools/dataset_converters/word_vocabulary.py``), or from ``torch.save``.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError, RuntimeError: the file has other content.
    """

    def __init__(self, words: int, dim: int = 300, *, pretrained: Optional[str] = None) -> None:
        super().__init__()
        self.dim = dim
        self.table = nn.Embedding(words, dim)
        nn.init.uniform_(self.table.weight, -(dim**-0.5), dim**-0.5)
        if pretrained is not None:
            vectors = read_vectors(Path(pretrained), words, dim)
            with torch.no_grad():
                self.table.weight[: len(vectors)] = vectors

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Map int64, bool [T, L] -> vectors [T, L, dim], and the mean of unit vectors [T, dim].

        Raises:
            ValueError: see :func:`~mmvtr.models.towers.base.check_text`.
        """
        rows = self.table.num_embeddings
        check_text(ids, mask, positions=None, vocabulary=rows, name='WordVectors')
        words = self.table(ids)
        return words, mean_of_units(words, mask)


def read_vectors(path: Path, words: int, dim: int) -> Tensor:
    """Return float32 [n, dim] of a file, n <= ``words``; errors of :class:`WordVectors`."""
    if path.suffix == '.npy':
        array = read_array(path)
        if array.dtype.kind not in 'fiu':
            raise ValueError(f'{path}: expected vectors, found {array.dtype}')
        vectors = torch.from_numpy(array.astype(np.float32))
    else:
        vectors = read_plain(path, kind='word vectors')
    shape = list(vectors.shape) if isinstance(vectors, Tensor) else type(vectors).__name__
    if not isinstance(vectors, Tensor) or vectors.shape[1:] != (dim,) or len(vectors) > words:
        raise ValueError(f'{path}: expected at most {words} vectors of width {dim}, found {shape}')
    wrong = (~vectors.isfinite()).nonzero()
    if len(wrong):
        row, column = wrong[0].tolist()
        raise ValueError(
            f'{path}: {vectors[row, column]:g} in row {row}, column {column}: expected finite '
            f'vectors ({len(wrong[:, 0].unique())} of {len(vectors)} are not)'
        )
    return vectors.float()


@MODELS.register_module()
class FeatureFrames(nn.Module):
    """Frame tower that returns stored features unchanged, or projects them linearly.

    Args:
        in_dim: width of the stored features.
        dim: width D of the joint space; None keeps the features unchanged.
        identity: start the projection as the identity, if frames and texts share one space.

    Raises:
        ValueError: ``identity`` between different widths.
    """

    def __init__(self, in_dim: int, dim: Optional[int] = None, *, identity: bool = False) -> None:
        super().__init__()
        self.in_dim = in_dim
        self.dim = in_dim if dim is None else dim
        self.projection = nn.Identity() if dim is None else nn.Linear(in_dim, dim)
        if identity:
            if dim != in_dim:
                raise ValueError(f'FeatureFrames: identity needs dim = in_dim, not {dim}, {in_dim}')
            nn.init.eye_(self.projection.weight)
            nn.init.zeros_(self.projection.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map features float [N, in_dim] -> float [N, D].

        Raises:
            ValueError: the features are of another width.
        """
        if x.shape[1:] != (self.in_dim,):
            raise ValueError(
                f'FeatureFrames takes features [N, {self.in_dim}], got {list(x.shape)}: in_dim '
                'must be the width of the stored features'
            )
        return self.projection(x)


@MODELS.register_module()
class FeatureWords(nn.Module):
    """A text tower that returns stored word features unchanged (RoBERTa's or CLIP's in PRVR).

    Args:
        in_dim: width of the stored features.

    Attributes:
        dim: the same width.
    """

    def __init__(self, in_dim: int) -> None:
        super().__init__()
        self.dim = in_dim

    def forward(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return words float [T, L, in_dim] of a mask [T, L], and their unit mean [T, in_dim].

        Raises:
            ValueError: token ids, or features of another width.
        """
        if not words.is_floating_point() or words.shape[2:] != (self.dim,):
            raise ValueError(
                f'FeatureWords takes float features [T, L, {self.dim}], got {words.dtype} '
                f'{list(words.shape)}: in_dim must be the width of the stored word features'
            )
        return words, mean_of_units(words.masked_fill(~mask[..., None], 0), mask)
