"""Items of several vectors: scores of late interaction (ColBERT, ColPali, UATVR).

The fitted object reads an item as one tensor [L, D + 1]: unit vectors of its tokens, zeros at
padding, and the tokens' weights in the last column.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional, Sequence

import numpy as np
import torch
from torch import Tensor

from mmvtr.functional.similarities.token_interaction import paired_token_scores, token_scores
from mmvtr.functional.values import CONVERSIONS

#: Geometry -> side of :func:`.token_scores`; the queries' tokens are its words.
SIDES: Mapping[str, str] = dict(maxsim='words', maxsim_of_items='frames', token_wise='both')


@dataclasses.dataclass(frozen=True)
class Tokens:
    """Items of several vectors.

    Args:
        vectors: numpy or torch, float [N, L, D], of any lengths; may be memory-mapped.
        mask: bool [N, L], True where a token is real; default everywhere.
        weights: float [N, L], each token's weight in its item's sum, 0 or more; default 1 / number
            of real tokens.  Not read at padding.
    """

    vectors: Any
    mask: Any = None
    weights: Any = None

    @classmethod
    def of(cls, items: Sequence[Any]) -> Tokens:
        """Return items with different numbers of tokens, float [L_i, D] each, padded to one length.

        Raises:
            ValueError: no items, an item without a token, or another width.
        """
        shapes = [tuple(np.shape(x)) for x in items]
        for number, shape in enumerate(shapes):
            if len(shape) != 2 or not shape[0] or shape[1] != shapes[0][1]:
                raise ValueError(f'item {number} {list(shape)} must be [tokens, {shapes[0][-1]}]')
        if not shapes:
            raise ValueError('there are no items')
        longest = max(shape[0] for shape in shapes)
        vectors = np.zeros((len(shapes), longest, shapes[0][1]), dtype=np.float32)
        for row, x in zip(vectors, items):
            row[: len(x)] = x
        return cls(vectors, np.arange(longest) < np.array(shapes)[:, :1])

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, rows: Any) -> Tokens:
        """Return some of the items."""
        return Tokens(*(None if x is None else x[rows] for x in vars(self).values()))


def read_mask(tokens: Any, name: str, geometry: str) -> tuple[Tensor, Tensor]:
    """Return which tokens are real, bool [N, L], and their weights, float32 [N, L].

    Raises:
        TypeError: not Tokens.
        ValueError: arrays that do not fit, an item without a token, weights out of range.
    """
    if not isinstance(tokens, Tokens):
        raise TypeError(
            f'geometry {geometry!r} reads several vectors per item: give {name.replace(" ", "_")} '
            f'as mmvtr.Tokens(vectors, mask), not {type(tokens).__name__}'
        )
    kind = type(tokens.vectors)
    how = CONVERSIONS.get(kind.__module__.partition('.')[0])
    if how is not None:
        raise TypeError(
            f'{name}: Tokens holds a numpy array or a torch tensor, not {kind.__name__}: give '
            + how.format('vectors')
        )
    shape = tuple(getattr(tokens.vectors, 'shape', ()))
    if len(shape) != 3 or 0 in shape:
        raise ValueError(
            f'{name} {list(shape)} must be an array [items, tokens, width], none of them 0; '
            'Tokens.of(list) makes one from a list of arrays'
        )
    mask = torch.ones(shape[:2], dtype=torch.bool)
    if tokens.mask is not None:
        mask = _tensor(tokens.mask)
    if mask.dtype != torch.bool or tuple(mask.shape) != shape[:2]:
        raise ValueError(
            f'the mask of {name} must be bool {list(shape[:2])}, not {mask.dtype} '
            f'{list(mask.shape)}'
        )
    if not mask.any(1).all():
        raise ValueError(f'{name}: item {int((~mask.any(1)).nonzero()[0])} has no real token')
    if tokens.weights is None:
        return mask, mask.float() / mask.sum(1, keepdim=True)
    weights = _tensor(tokens.weights).float()
    if tuple(weights.shape) != shape[:2]:
        raise ValueError(
            f'the weights of {name} must be {list(shape[:2])}, not {list(weights.shape)}'
        )
    weights = torch.where(mask, weights, 0)
    if not (weights >= 0).all() or not weights.isfinite().all() or not weights.any(1).all():
        raise ValueError(
            f'the weights of {name} must be finite, 0 or more, and not all 0 in an item'
        )
    return mask, weights


def late_products(queries: Tensor, items: Tensor, geometry: str) -> Tensor:
    """Return scores [Q, N] of queries [Q, L, D + 1] with items [N, M, D + 1], in tiles."""
    return token_scores(**_read(queries, items), side=SIDES[geometry])


def late_pairs(queries: Tensor, items: Tensor, geometry: str) -> Tensor:
    """Return the score of each query with the item of the same row, float [N]."""
    columns = torch.arange(len(items), device=items.device)[:, None]
    sides = _read(queries, items)
    return paired_token_scores(**sides, columns=columns, side=SIDES[geometry])[:, 0]


def pooled(rows: Tensor) -> Tensor:
    """Return one vector an item, [N, D]: the unit sum of its weighted tokens, or itself."""
    if rows.dim() == 2:
        return rows
    sums = (rows[..., :-1] * rows[..., -1:]).sum(1)
    return torch.nn.functional.normalize(sums, dim=1)


def engine_items(rows: Tensor, biases: Tensor) -> list[np.ndarray]:
    """Return items for an engine with MaxSim, float32 [L_i, D + 1] each: tokens and the bias."""
    arrays = []
    for row, bias in zip(rows, biases):
        tokens = row[_real(row), :-1]
        arrays.append(torch.cat([tokens, bias.expand(len(tokens), 1).to(tokens)], 1).cpu().numpy())
    return arrays


def engine_queries(rows: Tensor, share: float) -> list[np.ndarray]:
    """Return queries for these items: weighted tokens, and entries that sum to ``share``."""
    arrays = []
    for row in rows:
        real = row[_real(row)]
        weight = real[:, -1:]
        last = weight.new_full((len(real), 1), share / len(real))
        arrays.append(torch.cat([real[:, :-1] * weight, last], 1).cpu().numpy())
    return arrays


def _tensor(x: Any) -> Tensor:
    return x.detach().cpu() if isinstance(x, Tensor) else torch.from_numpy(np.array(x))


def _real(rows: Tensor) -> Tensor:
    return rows[..., :-1].any(-1)


def _read(queries: Tensor, items: Tensor) -> dict[str, Optional[Tensor]]:
    items = items.to(queries.device)
    return dict(
        words=queries[..., :-1],
        word_mask=_real(queries),
        word_weights=queries[..., -1],
        frames=items[..., :-1],
        frame_mask=_real(items),
        frame_weights=items[..., -1],
    )
