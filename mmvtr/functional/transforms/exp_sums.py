"""Sums of exponentials of a score matrix read in tiles: the inner loop of Sinkhorn-Knopp."""

from __future__ import annotations

import math
from typing import Iterator, NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.similarities.tiles import Tiles, column_blocks, extent
from mmvtr.functional.values import product

#: Sums of exponentials, the largest of which is 1, are accurate in linear space above this value:
#: float32 rounds only numbers below 1e-38 to 0.
FLOOR = 1e-26
#: Largest (step of coded scores) / temperature at which codes replace the scores in sums: each
#: exponential is then wrong by 5 % at most, with either sign.
COARSE = 0.1
#: Largest spread of the change of log row weights at which the ratio of sums is taken from codes.
NEAR = 0.02


class Sums(NamedTuple):
    """Logs of the column sums of diag(alpha) M and of the row sums of diag(alpha) M diag(beta).

    Attributes:
        log_alpha: float [Q], the row weights of these sums.
        columns: float [N].
        rows: float [Q].
    """

    log_alpha: Tensor
    columns: Tensor
    rows: Tensor


class ExpSums:
    """Sums of M = exp(scores * scale), of scores [Q, N] that are read in tiles, one pass a call.

    They are computed in linear space, or in log space if that could lose digits or a gradient is
    required.  A call waits for at most three values of a GPU.

    Args:
        tiles: the scores.
        scale: 1 / temperature, 0-dim.
        like: float [Q, n], some of the scores, for dtype and device.

    Raises:
        ValueError: (in a call) a score that is not finite; the message has its row and column.

    Example:
        >>> from mmvtr.functional.similarities.tiles import as_tiles
        >>> scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> sums = ExpSums(as_tiles(scores), torch.tensor(1.0), scores)
        >>> sums.of_columns(torch.zeros(2)).allclose(scores.logsumexp(0))
        True
    """

    def __init__(self, tiles: Tiles, scale: Tensor, like: Tensor) -> None:
        self._tiles, self._scale = tiles, scale
        # Above a temperature of 1 the rounding of a sum, times it, would move biases by 1e-5.
        self._linear = bool(scale >= 1)
        self._learned = like.requires_grad or scale.requires_grad
        count = -(-tiles.shape[1] // tiles.width)
        self._ranges = like.detach().new_full((count, 2), torch.nan)  # lowest and highest of a tile
        self._ranged = False
        self._room = like.detach().new_empty(0)
        self._whole: Optional[tuple[slice, Tensor, Tensor]] = None  # of a matrix of one block

    def of_columns(self, log_alpha: Tensor, near: Optional[Sums] = None) -> Tensor:
        """Return the log of sum_i alpha_i exp(s_ij * scale), float [N], of log alpha [Q].

        Args:
            log_alpha: float [Q].
            near: exact sums with other weights.  If the tiles are coded and these weights differ
                little, only the ratio of both sums is computed from the codes: it is near 1, and
                the codes' error is proportional to the difference.
        """
        if near is not None and self._in_linear_space_for(log_alpha) and self._codes() is not None:
            apart = log_alpha - near.log_alpha
            if apart.max() - apart.min() <= NEAR:
                return self._moved(near, log_alpha)
        return self._sums(log_alpha).columns

    def of_rows(
        self, log_alpha: Tensor, log_c: Tensor, power: float, *, rough: bool = False
    ) -> Sums:
        """Return the sums of diag(alpha) M diag(beta), with the beta that the columns require.

        A tile holds all rows, so its beta = (c / (alpha M))^power is exact at once, and its
        share of the row sums is added in the same pass.

        Args:
            log_alpha: float [Q].
            log_c: float [N], log masses of the columns.
            power: 0 to 1.
            rough: whether codes may replace the scores of coded tiles (:meth:`.Tiles.coded`).
        """
        return self._sums(log_alpha, log_c, power, rough)

    def _in_linear_space_for(self, log_alpha: Tensor) -> bool:
        learned = torch.is_grad_enabled() and (self._learned or log_alpha.requires_grad)
        return self._linear and not learned

    def _sums(
        self,
        log_alpha: Tensor,
        log_c: Optional[Tensor] = None,
        power: float = 0.0,
        rough: bool = False,
    ) -> Sums:
        if self._in_linear_space_for(log_alpha):
            sums = self._in_linear_space(log_alpha, log_c, power, rough)
            if sums is not None:
                return sums
            self._linear = False
        return self._in_log_space(log_alpha, log_c, power)

    def _in_linear_space(
        self, log_alpha: Tensor, log_c: Optional[Tensor], power: float, rough: bool
    ) -> Optional[Sums]:
        """Return the sums, or None if digits could be lost or a score is not finite."""
        # In place: small results that outlive their tile fragment the heap.
        alpha = _Weights(log_alpha)
        columns = self._ranges.new_empty(self._tiles.shape[1])
        rows = torch.full_like(log_alpha, -torch.inf)
        lowest = self._ranges.new_tensor(torch.inf)
        for part, exps, top in self._exponentials(rough):
            sums = product(exps.t(), alpha.values)
            torch.minimum(lowest, sums.min(), out=lowest)
            columns[part] = sums.log_().add_(alpha.largest + top)
            if log_c is not None:
                beta = _Weights(power * (log_c[part] - columns[part]))
                shares = product(exps, beta.values)
                torch.minimum(lowest, shares.min(), out=lowest)
                torch.logaddexp(rows, shares.log_().add_(beta.largest + top), out=rows)
            if part.start == 0 and not lowest > FLOOR:  # the first tile mostly decides
                return None
        if not (lowest > FLOOR and (self._ranged or self._ranges.isfinite().all())):
            return None
        self._ranged = True
        return Sums(log_alpha, columns, rows.add_(log_alpha))

    def _moved(self, near: Sums, log_alpha: Tensor) -> Tensor:
        before, after = _Weights(near.log_alpha), _Weights(log_alpha)
        columns = near.columns + (after.largest - before.largest)
        for part, exps, _ in self._exponentials(rough=True):
            old, new = (product(exps.t(), x.values).log_() for x in (before, after))
            columns[part] += new - old
        return columns

    def _codes(self) -> Optional[object]:
        codes = self._tiles.codes
        if codes is None or not codes.step * self._scale <= COARSE:
            return None
        return codes

    def _exponentials(self, rough: bool) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield columns, exp(scores * scale - top) [Q, n] in reused memory, and top * scale."""
        if self._whole is not None:
            yield self._whole
            return
        codes = self._codes() if rough else None
        bits = self._scale / math.log(2)
        for number, start in enumerate(range(0, self._tiles.shape[1], self._tiles.width)):
            part = slice(start, min(start + self._tiles.width, self._tiles.shape[1]))
            coded = None if codes is None else codes.of(part)
            if coded is None:
                tile = self._tiles.columns(part).detach()
                if not self._ranged:
                    self._ranges[number] = extent(tile)
                factor, top = bits, self._ranges[number, 1]
            else:
                tile, self._ranges[number], step = coded
                factor, top = bits * step, self._ranges[number, 0]
            for block, scores in column_blocks(tile):
                room = self._room_for(scores)
                if coded is None:
                    torch.sub(scores, top, out=room)
                else:
                    room.copy_(scores)
                room.mul_(factor).exp2_()  # exp_ takes three times as long
                exps = slice(start + block.start, start + block.stop), room, top * self._scale
                if room.shape[1] == self._tiles.shape[1] and coded is None:
                    self._whole = exps
                yield exps
            tile = scores = None  # freed before the next is made

    def _in_log_space(self, log_alpha: Tensor, log_c: Optional[Tensor], power: float) -> Sums:
        columns, rows = torch.empty(0), torch.full_like(log_alpha, -torch.inf)
        for part, tile in self._tiles.finite().parts():
            exponents = torch.addcmul(log_alpha[:, None], tile, self._scale)
            logs = exponents.logsumexp(0)
            if part.start == 0:
                columns = logs.new_empty(self._tiles.shape[1])
            columns[part] = logs
            if log_c is not None:
                exponents = exponents + power * (log_c[part] - logs)
                rows = torch.logaddexp(rows, exponents.logsumexp(1))
        return Sums(log_alpha, columns, rows)

    def _room_for(self, scores: Tensor) -> Tensor:
        """Return reused memory for a block, in its memory order: allocating it costs as much as the
        exponentials."""
        if len(self._room) < scores.numel():
            self._room = self._room.new_empty(scores.numel())
        room = self._room[: scores.numel()]
        if scores.stride(1) == 1:
            return room.view(scores.shape)
        return room.view(scores.t().shape).t()


class _Weights:
    """Weights as logs, and divided by the largest as numbers in [0, 1]."""

    def __init__(self, logs: Tensor) -> None:
        logs = logs.detach()
        self.largest = logs.max()
        self.values = (logs - self.largest).exp()
