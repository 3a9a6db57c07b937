"""Contributions to a token-wise score: each token's best partner and its weight."""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.similarities.token_interaction import SIDES
from mmvtr.functional.values import arrays_too, at_least_float32, check_one_of, check_valid

__all__ = ['Partners', 'token_matches']


class Partners(NamedTuple):
    """One of the two sums of a token-wise score, token by token.

    Attributes:
        weight: float [T, V, L], weight of a token, 0 at padding: a_n (b_m) of ``token_scores``,
            halved if there are two sums.
        value: float [T, V, L], its similarity with its best partner, 0 at padding.
        partner: int64 [T, V, L], index of that token of the other side; -1 at padding, and if
            padding is the best partner (``official_mask``).
    """

    weight: Tensor
    value: Tensor
    partner: Tensor

    @property
    def share(self) -> Tensor:
        """Contribution of each token to the score, float [T, V, L]."""
        return self.weight * self.value


@arrays_too
def token_matches(
    words: Tensor,
    word_mask: Tensor,
    frames: Tensor,
    frame_mask: Tensor,
    *,
    side: str = 'both',
    word_weights: Optional[Tensor] = None,
    frame_weights: Optional[Tensor] = None,
    official_mask: bool = False,
) -> dict[str, Partners]:
    """Return maxima and weights of UATVR Eq. 7-8, whose products sum to the score.

    For a few texts and videos: all T x V x L x F similarities are in memory at once.

    Args:
        words, word_mask, frames, frame_mask, side, word_weights, frame_weights, official_mask: see
            :func:`~mmvtr.functional.similarities.token_interaction.token_scores`.

    Returns:
        ``'words'`` with L words and ``'frames'`` with F frames as tokens, or only the one that
        ``side`` names; the sum of all their shares is ``token_scores``.

    Raises:
        ValueError: an unknown side, or an item without a valid token.

    Example:
        The second of two words matches the first frame. ::

            >>> words, frames = torch.eye(3)[None, [0, 1]], torch.eye(3)[None, [1, 2]]
            >>> valid = torch.ones(1, 2, dtype=torch.bool)
            >>> found = token_matches(words, valid, frames, valid)
            >>> found['words'].share[0, 0].tolist(), found['frames'].share[0, 0].tolist()
            ([0.0, 0.25], [0.25, 0.0])
            >>> int(found['words'].partner[0, 0, 1]), int(found['frames'].partner[0, 0, 0])
            (0, 1)
    """
    check_one_of(SIDES, side=side)
    for kind, mask in (('text', word_mask), ('video', frame_mask)):
        check_valid(mask, kind, 'token')
    with torch.autocast(words.device.type, enabled=False):
        sims = torch.einsum('tld,vfd->tvlf', words, frames)
    valid = word_mask[:, None, :, None] & frame_mask[None, :, None, :]
    sims = sims.masked_fill(~valid, 0.0 if official_mask else -math.inf)
    half = 0.5 if side == 'both' else 1.0
    shape = sims.shape[:2]
    partners = {}
    if side != 'frames':
        weight = half * _weights(word_mask, word_weights)[:, None]
        partners['words'] = _partners(sims, 3, word_mask[:, None], frame_mask, weight, shape)
    if side != 'words':
        weight = half * _weights(frame_mask, frame_weights)[None]
        mask = word_mask[:, None]
        partners['frames'] = _partners(sims, 2, frame_mask[None], mask, weight, shape)
    return partners


def _weights(mask: Tensor, weights: Optional[Tensor]) -> Tensor:
    """Return the weights, float [N, L]; equal weights of sum 1 by default."""
    if weights is None:
        return mask.float() / mask.sum(1, keepdim=True)
    return at_least_float32(weights).masked_fill(~mask, 0.0)


def _partners(
    sims: Tensor, dim: int, own: Tensor, others: Tensor, weight: Tensor, shape: torch.Size
) -> Partners:
    """Return the best along ``dim`` of [T, V, L, F]; masks, weights broadcast to [T, V, tokens]."""
    value, partner = sims.max(dim)
    others = others.expand(*shape, -1)
    own = own.expand_as(value)
    partner = partner.masked_fill(~(own & others.gather(2, partner)), -1)
    return Partners(weight.expand_as(value), value.masked_fill(~own, 0.0), partner)
