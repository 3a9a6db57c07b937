"""Hard-negative mining over a gallery that leaves out likely false negatives."""

from __future__ import annotations

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.similarities.distinct import places_in_groups
from mmvtr.functional.similarities.tiles import top_of_rows

#: Entries of the score matrix that are computed at a time.
TILE = 2**24


@torch.no_grad()
def mine_negatives(
    queries: Any,
    gallery: Any,
    positives: Any,
    *,
    k: int = 5,
    skip: int = 0,
    guide: Optional[tuple[Any, Any]] = None,
    margin: Optional[float] = 0.0,
    relative: Optional[float] = None,
    gallery_ids: Optional[Any] = None,
) -> Tensor:
    """Return each query's best-scored gallery items that are unlikely to be unannotated matches.

    An item is left out if it is a positive, if it shares its number in ``gallery_ids`` with a
    positive, or if the guide scores it above ``bar_q - margin`` or above ``relative * bar_q``;
    ``bar_q`` is the guide's best score of a positive of the query (GISTEmbed's mask is
    ``margin=0``, NV-Retriever's TopK-PercPos ``relative=.95``).

    Args:
        queries, gallery: text or video vectors, float [Q, D] and [N, D]; numpy or torch.  They are
            compared by cosine.
        positives: int [Q] or [Q, M], positions of each query's own items, padded with -1; or bool
            [Q, N]; a query without positives has no bar.
        k: negatives per query.
        skip: number of best remaining items to leave out.
        guide: vectors of queries and gallery that judge what is a likely match, of any width;
            default: the vectors that rank.
        margin: in the guide's cosines; 0 removes items that score above the positive, None removes
            none.
        relative: a fraction of the bar, or None; it removes nothing if the bar is below 0.
        gallery_ids: int [N], the item of which each gallery row is a copy or a part: if one row is
            a positive, so are all rows with its number.

    Returns:
        int64 [Q, k], positions in the gallery, best first; padded with -1.  On the device of the
        queries, where everything is computed.

    Raises:
        ValueError: widths or lengths that do not match, vectors that are not finite or all zero, a
            position outside of the gallery, a k below 1, a negative skip.

    Example:
        Item 1 is as near to the query as its positive, item 0. ::

            >>> gallery = torch.tensor([[1.0, 0.2], [1.0, -0.1], [1.0, 1.0]])
            >>> mine_negatives(torch.tensor([[1.0, 0.0]]), gallery, [0], k=1)
            tensor([[2]])
    """
    if k < 1 or skip < 0:
        raise ValueError(f'k must be 1 or more and skip 0 or more, not {k} and {skip}')
    q = _unit(queries, 'queries')
    g = _unit(gallery, 'gallery').to(q.device)
    own = _positions(positives, len(q), len(g)).to(q.device)
    if q.shape[1] != g.shape[1]:
        raise ValueError(f'queries have {q.shape[1]} dimensions, the gallery {g.shape[1]}')
    judge = None
    if guide is not None:
        judge = tuple(x.to(q.device) for x in _guide(guide, len(q), len(g)))
    groups = torch.arange(len(g)) if gallery_ids is None else torch.as_tensor(gallery_ids).long()
    groups = groups.to(q.device)
    if groups.shape != (len(g),) or (groups < 0).any():
        raise ValueError(f'gallery_ids must be {len(g)} numbers of 0 or more, one per item')

    def guide_scores(part: slice) -> Optional[Tensor]:
        return None if judge is None else judge[0][part] @ judge[1].T

    rows = max(1, TILE // max(len(g), 1))
    with torch.autocast(q.device.type, enabled=False):
        parts = [
            _mine(q[part] @ g.T, guide_scores(part), own[part], groups, k, skip, margin, relative)
            for part in (slice(start, start + rows) for start in range(0, len(q), rows))
        ]
    return torch.cat(parts) if parts else own.new_empty(0, k)


def _mine(
    scores: Tensor,
    guide_scores: Optional[Tensor],
    own: Tensor,
    groups: Tensor,
    k: int,
    skip: int,
    margin: Optional[float],
    relative: Optional[float],
) -> Tensor:
    """Return int64 [q, k] for q queries, from their scores [q, N] and those of the guide."""
    guide_scores = scores if guide_scores is None else guide_scores
    of_group = torch.where(own >= 0, groups[own.clamp_min(0)], -1)
    out = torch.zeros_like(scores, dtype=torch.bool)
    for own_groups in of_group.T:  # one column of M at a time, to avoid [q, M, N]
        out |= own_groups[:, None] == groups
    bar = guide_scores.masked_fill(~out, -torch.inf).amax(1, keepdim=True)
    bar = bar.masked_fill(bar.isinf(), torch.inf)  # no positive: nothing is above the bar
    if margin is not None:
        out |= guide_scores > bar - margin
    if relative is not None:
        out |= (guide_scores > relative * bar) & (bar > 0)
    scores = scores.masked_fill(out, -torch.inf)
    values, places = top_of_rows(scores, skip + k)
    places = places.masked_fill(values.isinf(), -1)[:, skip:]
    return F.pad(places, (0, k - places.shape[1]), value=-1)


def _guide(guide: tuple[Any, Any], queries: int, items: int) -> tuple[Tensor, Tensor]:
    q, g = _unit(guide[0], "the guide's queries"), _unit(guide[1], "the guide's gallery")
    if (len(q), len(g)) != (queries, items) or q.shape[1] != g.shape[1]:
        raise ValueError(
            f"the guide's vectors are {list(q.shape)} and {list(g.shape)}, for {queries} queries "
            f'and {items} items'
        )
    return q, g


def _unit(vectors: Any, name: str) -> Tensor:
    """Return float32 [N, D] of unit length."""
    x = torch.as_tensor(vectors).float()
    if x.ndim != 2:
        raise ValueError(f'{name} must be [N, D], not {list(x.shape)}')
    if not x.isfinite().all():
        raise ValueError(f'{name}: row {int((~x.isfinite()).any(1).int().argmax())} is not finite')
    norms = x.norm(dim=1)
    if (norms == 0).any():
        raise ValueError(f'{name}: row {int((norms == 0).int().argmax())} is all zero')
    return x / norms[:, None]


def _positions(positives: Any, queries: int, items: int) -> Tensor:
    """Return the positives as int64 [Q, M]."""
    table = torch.as_tensor(positives)
    if table.dtype == torch.bool:
        if table.shape != (queries, items):
            raise ValueError(f'a mask of positives must be [{queries}, {items}]')
        rows, columns = table.nonzero(as_tuple=True)
        places = columns.new_full((queries, int(table.sum(1).max()) if table.numel() else 0), -1)
        places[rows, places_in_groups(rows)] = columns
        return places
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != queries or table.is_floating_point():
        raise ValueError(f'positives must be whole numbers [Q] or [Q, M], Q = {queries}')
    if table.numel() and not (-1 <= int(table.min()) and int(table.max()) < items):
        raise ValueError(f'positives must be 0 to {items - 1}, or -1 for none')
    return table.long()
