"""ARL's uncertainty of texts and frames over a dataset (Eq. 4), exactly and in linear time.

The mean cosine of a vector with N others is its product with the mean of their unit vectors: no map
of texts x videos x frames is made.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Iterator, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.values import arrays_too, at_least_float32, product

__all__ = ['PairMoments', 'Uncertainty', 'UnitMean', 'dataset_uncertainty', 'mean_cosines']

#: Numbers read at a time: they stay in a core's cache while they are used three times.
ENTRIES = 2**19


class UnitMean:
    """Mean of the unit vectors of many embeddings, added in parts (for ARL Eq. 4).

    A zero vector counts as a vector whose cosines are 0.

    Args:
        dim: D.
        device: where the sum lies.

    Attributes:
        totals: float64 [D + 1], the sum and the number of vectors.  Add those of another process
            (all-reduce) to combine both.

    Example:
        ::

            >>> frames = UnitMean(2)
            >>> frames.add(torch.tensor([[2.0, 0.0], [0.0, 5.0]]))
            >>> frames.mean
            tensor([0.5000, 0.5000], dtype=torch.float64)
    """

    def __init__(self, dim: int, *, device: Optional[str | torch.device] = None) -> None:
        self.totals = torch.zeros(dim + 1, dtype=torch.float64, device=device)

    @property
    def sum(self) -> Tensor:
        """The sum of the unit vectors, float64 [D]."""
        return self.totals[:-1]

    @property
    def count(self) -> int:
        """The number of vectors."""
        return int(self.totals[-1])

    @property
    def mean(self) -> Tensor:
        """The mean unit vector, float64 [D]; ValueError if nothing was added."""
        if not self.count:
            raise ValueError('no vectors, so no mean: nothing was added, or nothing was valid')
        return self.sum / self.totals[-1]

    def merge(self, other: 'UnitMean') -> None:
        """Add the sums of ``other``."""
        self.totals += other.totals.to(self.totals.device)

    @torch.no_grad()
    def add(
        self, x: Any, mask: Optional[Any] = None, *, against: Optional[Tensor] = None
    ) -> Optional[Tensor]:
        """Add embeddings; return their cosines with ``against``, if given.

        Args:
            x: float Tensor or numpy array [..., D], may be half precision and memory-mapped.
            mask: bool [...] or None, the valid ones.
            against: float [D], the mean of the other side (for Eq. 4 in the same pass).

        Returns:
            See :func:`mean_cosines`; None without ``against``.

        Raises:
            ValueError: shapes that do not fit, or an item that is not finite; nothing is added.
        """
        cosines = None if against is None else _empty_cosines(x)
        totals = torch.zeros_like(self.totals)
        for block in _blocks(x, mask, len(self.sum)):
            totals[:-1] += product(block.scale, block.vectors).to(totals.device)
            totals[-1] += len(block.vectors)
            if cosines is not None:
                _write_cosines(cosines, block, against)
        self.totals += totals
        return cosines


class PairMoments:
    """First and second moments of pairs of unit vectors, added in parts.

    Pair uncertainty (ARL Eq. 5) is linear in a pair's two vectors, so its mean and deviation over
    any number of pairs follow from these, for means of the dataset that are known only later.

    Args:
        dim: D.
        device: where the sums lie.

    Attributes:
        totals: float64 [2 D + 1, 2 D + 1], the sum of z z' with z = (text, frame, 1).  Add those of
            another process (all-reduce) to combine both.

    Example:
        One of two pairs is (1 + 1) / 2 uncertain, the other 0. ::

            >>> pairs, mean = PairMoments(2), torch.tensor([1.0, 0.0])
            >>> pairs.add(torch.eye(2), torch.eye(2))
            >>> pairs.uncertainty(mean, mean)
            (0.5, 0.5)
    """

    def __init__(self, dim: int, *, device: Optional[str | torch.device] = None) -> None:
        self.totals = torch.zeros(2 * dim + 1, 2 * dim + 1, dtype=torch.float64, device=device)

    @torch.no_grad()
    def add(self, texts: Tensor, frames: Tensor) -> None:
        """Add texts and their frames, float [P, D] each; they need not be of unit length."""
        units = [F.normalize(x.double(), dim=-1) for x in (texts, frames)]
        z = torch.cat([*units, torch.ones_like(units[0][:, :1])], 1).to(self.totals.device)
        self.totals += z.t() @ z

    def uncertainty(self, text_mean: Tensor, frame_mean: Tensor) -> tuple[float, float]:
        """Return mean and deviation of (text . frame_mean + frame . text_mean) / 2 over pairs.

        Args:
            text_mean, frame_mean: float [D], the means of Eq. 4.

        Raises:
            ValueError: no pair was added.
        """
        count = float(self.totals[-1, -1])
        if not count:
            raise ValueError('no pairs, so no uncertainty: nothing was added')
        w = torch.cat([frame_mean, text_mean]).to(self.totals) / 2
        mean = float(self.totals[-1, :-1] @ w) / count
        variance = float(w @ self.totals[:-1, :-1] @ w) / count - mean**2
        return mean, math.sqrt(max(variance, 0.0))


@torch.no_grad()
@partial(arrays_too, mapped=True)
def mean_cosines(x: Any, mean: Tensor, mask: Optional[Any] = None) -> Tensor:
    """Return the mean cosine of each embedding with the vectors of a :class:`UnitMean` (ARL Eq. 4).

    ``1/N sum_n cos(x, y_n) = <x / |x|, mean of y_n / |y_n|>``: U^q of texts with the mean of all
    valid frames, U^v of frames with the mean of all texts.

    Args:
        x: float Tensor or numpy array [..., D], may be half precision and memory-mapped.
        mean: float [D].
        mask: bool [...] or None, the valid ones; others get 0.

    Returns:
        float32 (float64 of float64) [...].

    Raises:
        ValueError: shapes that do not fit, or an item that is not finite.

    Example:
        With the vectors (1, 0) and (0, 1). ::

            >>> mean_cosines(torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([0.5, 0.5]))
            tensor([0.7000, 0.5000])
    """
    cosines, mean = _empty_cosines(x), torch.as_tensor(mean)
    for block in _blocks(x, mask, len(mean)):
        _write_cosines(cosines, block, mean)
    return cosines


class Uncertainty(NamedTuple):
    """Uncertainty of the texts and frames of a dataset (ARL Eq. 4).

    Attributes:
        texts: float [N_q], U^q.
        frames: float [N_v, F], U^v; 0 at padding.
    """

    texts: Tensor
    frames: Tensor


@partial(arrays_too, mapped=True)
def dataset_uncertainty(texts: Any, frames: Any, mask: Optional[Any] = None) -> Uncertainty:
    """Return mean cosines of each text with all frames, and of each frame with all texts (Eq. 4).

    Reads the frames once.

    Args:
        texts: float Tensor or numpy array [N_q, D], may be half precision and memory-mapped.
        frames: float Tensor or numpy array [N_v, F, D], likewise.
        mask: bool [N_v, F] or None, the valid frames.

    Raises:
        ValueError: shapes that do not fit, no text, no valid frame, or an item not finite.

    Example:
        Two texts, one video of two frames. ::

            >>> dataset_uncertainty(torch.eye(2), torch.tensor([[[3.0, 4.0], [1.0, 0.0]]]))
            Uncertainty(texts=tensor([0.8000, 0.4000]), frames=tensor([[0.7000, 0.5000]]))
    """
    text_mean, frame_mean = (UnitMean(x.shape[-1], device=_device(x)) for x in (texts, frames))
    text_mean.add(texts)
    of_frames = frame_mean.add(frames, mask, against=text_mean.mean)
    return Uncertainty(mean_cosines(texts, frame_mean.mean), of_frames)


class _Block(NamedTuple):
    """Some valid vectors: float [n, D], 1 / length [n], and where they come from."""

    vectors: Tensor
    scale: Tensor
    items: slice
    valid: Optional[Tensor]


def _blocks(x: Any, mask: Optional[Any], dim: int) -> Iterator[_Block]:
    mask = mask if mask is None or isinstance(mask, Tensor) else torch.tensor(mask)
    if x.shape[-1] != dim or (mask is not None and mask.shape != x.shape[:-1]):
        masked = 'none' if mask is None else list(mask.shape)
        raise ValueError(f'embeddings {list(x.shape)} with mask {masked} must be [..., {dim}]')
    step = max(1, ENTRIES // max(math.prod(x.shape[1:]), 1))
    for start in range(0, len(x), step):
        items = slice(start, min(start + step, len(x)))
        vectors = x[items] if isinstance(x, Tensor) else torch.tensor(x[items])  # may be read-only
        valid = None if mask is None or mask[items].all() else mask[items].to(vectors.device)
        rows = at_least_float32(vectors.flatten(0, -2) if valid is None else vectors[valid])
        length = torch.linalg.vector_norm(rows, dim=-1)
        if not length.isfinite().all():
            bad = int((~length.isfinite()).nonzero()[0])
            real = torch.ones(vectors.shape[:-1], dtype=torch.bool) if valid is None else valid
            item = start + int(real.nonzero()[bad, 0])
            raise ValueError(f'the embedding of item {item} is not finite, or too long')
        yield _Block(rows, 1 / length.clamp_min(1e-12), items, valid)


def _empty_cosines(x: Any) -> Tensor:
    dtype = torch.float64 if str(x.dtype).endswith('float64') else torch.float32
    return torch.zeros(tuple(x.shape[:-1]), dtype=dtype, device=_device(x))


def _write_cosines(cosines: Tensor, block: _Block, mean: Tensor) -> None:
    values = product(block.vectors, mean.to(block.vectors)) * block.scale
    part = cosines[block.items]
    if block.valid is None:
        part.copy_(values.view_as(part))
    else:
        part[block.valid] = values


def _device(x: Any) -> torch.device:
    return x.device if isinstance(x, Tensor) else torch.device('cpu')
