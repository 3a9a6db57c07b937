"""Log sums over exp(scores / temperature), weighted by rows, a tile at a time.

In linear space, an exponential and two matrix-vector products a tile, where the scores of a tile
lie close enough together for the temperature; in log space elsewhere and where gradients are asked
for.
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from mmvtr.functional.similarities.tiles import Tiles, refuse_non_finite

#: (highest - lowest score) / temperature of a tile up to which its sums are taken in linear space.
#: A float32 holds e^-87: what is lost beside the largest part of a sum is below e^-27 of it.
RANGE = 60.0


class ExpSums:
    """Sums of exp(scores * scale), of scores [Q, N] that are read in tiles, once a call.

    Args:
        tiles: of the scores.
        scale: 1 / temperature, 0-dim.

    Raises:
        ValueError: at a call, a score that is not finite (its row and column are said).

    Example:
        >>> from mmvtr.functional.similarities.tiles import as_tiles
        >>> scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> sums = ExpSums(as_tiles(scores), torch.tensor(1.0))
        >>> sums.of_columns(torch.zeros(2)).allclose(scores.logsumexp(0))
        True
    """

    def __init__(self, tiles: Tiles, scale: Tensor) -> None:
        self._tiles, self._scale = tiles, scale
        self._room = torch.empty(0)
        self._ranges: dict[int, tuple[Tensor, Tensor]] = {}

    def of_columns(self, log_alpha: Tensor) -> Tensor:
        """Return the log of sum_i alpha_i exp(s_ij * scale), float [N], of log alpha [Q]."""
        found = torch.empty(0)
        alpha = _Weights(log_alpha)
        for part, tile in self._tiles.parts():
            sums = self._column_sums(part, tile, alpha)[0]
            if part.start == 0:
                found = sums.new_empty(self._tiles.shape[1])
            found[part] = sums
        return found

    def of_rows(self, log_alpha: Tensor, log_c: Tensor, strictness: float) -> Tensor:
        """Return the log row sums [Q] of diag(alpha) M diag(beta), beta as the columns need it.

        A tile holds all rows, so its beta = (c / (alpha M))^strictness is exact at once and its
        share of the row sums can follow.

        Args:
            log_alpha: float [Q].
            log_c: float [N], of the masses that columns are to get.
            strictness: 0 to 1.
        """
        log_sums = torch.full_like(log_alpha, -torch.inf)
        alpha = _Weights(log_alpha)
        for part, tile in self._tiles.parts():
            sums, kernel, top = self._column_sums(part, tile, alpha)
            log_beta = strictness * (log_c[part] - sums)
            if kernel is None or log_beta.requires_grad:
                share = (self._exponents(tile, log_alpha) + log_beta).logsumexp(1)
            else:
                beta = _Weights(log_beta)
                share = _product(kernel, beta.values).log() + (beta.largest + top) + log_alpha
            log_sums = torch.logaddexp(log_sums, share)
        return log_sums

    def _column_sums(
        self, part: slice, tile: Tensor, alpha: '_Weights'
    ) -> tuple[Tensor, Optional[Tensor], Tensor]:
        """Log column sums [n] of a tile, exp(scores * scale - top) [Q, n] if in linear space, and
        top."""
        if part.start not in self._ranges:
            refuse_non_finite(tile, name=self._tiles.name, first_column=part.start)
            self._ranges[part.start] = tile.detach().amin(0).min(), tile.detach().amax(0).max()
        low, high = self._ranges[part.start]
        top = high * self._scale
        learned = torch.is_grad_enabled() and any(
            x.requires_grad for x in (tile, self._scale, alpha.logs)
        )
        # Above a temperature of 1 the rounding of a sum, times it, would move biases by 1e-5.
        if learned or self._scale < 1 or top - low * self._scale > RANGE:
            return self._exponents(tile, alpha.logs).logsumexp(0), None, top
        kernel = torch.addcmul(-top, tile, self._scale, out=self._room_for(tile)).exp_()
        return _product(kernel.t(), alpha.values).log() + (alpha.largest + top), kernel, top

    def _exponents(self, tile: Tensor, log_alpha: Tensor) -> Tensor:
        return torch.addcmul(log_alpha[:, None], tile, self._scale)

    def _room_for(self, tile: Tensor) -> Tensor:
        """The same memory for each tile, in its order: to ask for it anew costs as much as the
        exponentials."""
        if len(self._room) < tile.numel():
            self._room = tile.new_empty(tile.numel())
        room = self._room[: tile.numel()]
        return room.view(tile.shape) if tile.stride(1) == 1 else room.view(tile.t().shape).t()


def _product(a: Tensor, b: Tensor) -> Tensor:
    with torch.autocast(a.device.type, enabled=False):
        return a @ b


class _Weights:
    """Weights as their logs and, over the largest, as numbers in [0, 1]."""

    def __init__(self, logs: Tensor) -> None:
        self.logs, self.largest = logs, logs.detach().max()
        self.values = (logs.detach() - self.largest).exp()
