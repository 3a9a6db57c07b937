"""Lists with known right places: of any ranker, or of a bank's held-out pairs."""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.arrays.inputs import Bank, Vectors, own_products, score_tiles
from mmvtr.arrays.topk_probabilities import LENGTHS
from mmvtr.arrays.vectors import padded
from mmvtr.functional.similarities.distinct import places_in_groups, row_groups
from mmvtr.functional.similarities.tiles import side_by_side, top_of_rows
from mmvtr.functional.transforms.item_biases import ItemBiases, fit_biases
from mmvtr.functional.transforms.transform_table import TRANSFORMS

#: Relative difference below which scores are equal.
EQUAL = 1e-6


class JudgedLists(NamedTuple):
    """Lists with known right places.

    Attributes:
        every: float32 [q, K], ranking scores; -inf = not in the list.
        right: bool [q, K].
    """

    every: Tensor
    right: Tensor

    @classmethod
    def of(
        cls,
        bank: Bank,
        gallery: Vectors,
        fitted: Optional[ItemBiases],
        held_out: Tensor,
        rest: Tensor,
        generator: torch.Generator,
    ) -> JudgedLists:
        """Return lists [q, N + m] of the pairs ``held_out`` [q, 2]: the gallery and, last, items of
        the pair's text, with biases of the pairs ``rest`` [p, 2]."""
        texts, items = bank.texts[held_out[:, 0]], bank.items[held_out[:, 1]]
        raw = torch.cat([tile for _, tile in score_tiles(texts, gallery).parts()], dim=1)
        own_scores = own_products(texts, items, bank.geometry)
        rows, places = _copies(raw, own_scores, items, gallery)
        text, mates = _mates(held_out[:, 0], int(bank.pairs[:, 0].bincount().max()))
        there = mates >= 0
        number = torch.arange(len(held_out))
        mates = torch.where(there, mates, number[:, None])
        copy = torch.full((len(held_out),), -1)
        copy[rows] = places
        share = len(gallery) / len(bank.items)
        drawn = torch.rand(mates.shape, generator=generator) < share
        there &= (mates == number[:, None]) | (copy[mates] >= 0) | drawn
        every = torch.cat(
            [raw, torch.where(there.to(raw.device), own_scores[mates], raw.amin(1, True))], 1
        )
        if fitted is not None:
            own_items = held_out[mates, 1]
            part = _of_part(fitted, bank, gallery, rest, own_items, copy[mates])
            every = part.transform_scores(every)
        right = torch.zeros_like(every, dtype=torch.bool)
        right[:, len(gallery) :] = there.to(right.device)
        copied = torch.zeros(len(held_out), len(gallery), dtype=torch.bool)
        copied[text[rows], places] = True
        out = torch.cat([copied[text], ~there], dim=1).to(every.device)
        return cls(every.masked_fill_(out, -torch.inf), right)

    def cut(self, depth: int) -> JudgedLists:
        """Return the ``depth`` best places of each list; all if it is 0."""
        if not 0 < depth < self.every.shape[1]:
            return self
        every, places = top_of_rows(self.every, depth)
        return JudgedLists(every, self.right.gather(1, places))

    def ranks(self, generator: torch.Generator) -> Tensor:
        """Return the place of the best right item, int64 [q], at random among items of its score;
        the largest int64 if no item is right."""
        best = self.every.masked_fill(~self.right, -torch.inf).amax(1, keepdim=True)
        above = self.every - best
        equal = EQUAL * best.abs()
        higher = ((above > equal) & ~self.right).sum(1)
        alike = ((above.abs() <= equal) & ~self.right).sum(1)
        drawn = torch.rand(len(alike), generator=generator).to(alike.device)
        places = 1 + higher + (drawn * (alike + 1)).long()
        return places.masked_fill(~self.right.any(1), torch.iinfo(torch.int64).max)

    def losses(self, temperature: float) -> Tensor:
        """Return -log of the right items' share, float32 [q], of lists with a right item."""
        scaled = self.every / temperature
        return scaled.logsumexp(1) - scaled.masked_fill(~self.right, -torch.inf).logsumexp(1)

    def cumulated(self, temperature: float) -> Tensor:
        """Return the cumulated shares of the best places, float64 [q, L]."""
        every = self.every / temperature
        top = every.topk(min(max(LENGTHS), every.shape[1]), dim=1).values
        return (top - every.logsumexp(1, keepdim=True)).double().exp().cumsum(1)


def _mates(texts: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the number of each pair's text, int64 [q], and the pairs of this text, int64
    [q, most], filled up with -1."""
    different, text = texts.unique(return_inverse=True)
    order = text.argsort(stable=True)
    pairs = torch.full((len(different), most), -1)
    pairs[text[order], places_in_groups(text[order])] = order
    return text, pairs[text]


def _copies(raw: Tensor, own: Tensor, items: Tensor, gallery: Vectors) -> tuple[Tensor, Tensor]:
    """Return rows and places, int64 [c] each, at which the gallery holds a row's own item.

    Args:
        raw: float [q, N], scores of the texts with the gallery.
        own: float [q], with their own items; a copy scores alike.
        items: float [q, ...], the own items.
        gallery: N items.
    """
    near = (raw - own[:, None]).abs() <= EQUAL * own.abs().clamp_min(EQUAL)[:, None]
    rows, places = near.nonzero().cpu().T
    some = places.unique()
    if not len(some):
        return rows, places
    copies = gallery.unit(some).to(items.device)
    groups = row_groups(torch.cat(padded([items, copies])).cpu())
    same = groups[rows] == groups[len(items) + torch.searchsorted(some, places)]
    return rows[same], places[same]


def _of_part(
    fitted: ItemBiases, bank: Bank, gallery: Vectors, rest: Tensor, own_items: Tensor, copy: Tensor
) -> ItemBiases:
    """Return the transform fitted to the pairs ``rest``, for lists [q, N + m] with own items last.

    The own items are fitted together with the gallery: an item added afterwards gets a smaller
    bias, as Sinkhorn's row sums do not count it.

    Args:
        own_items: int64 [q, m], the own items of each list.
        copy: int64 [q, m], their places in the gallery; -1 = not there.
    """
    rows = rest[:, 0].unique()
    texts, seen = bank.texts[rows], bank.items[rest[:, 1].unique()]
    items, place = own_items.unique(return_inverse=True)
    further = Vectors.of(bank.items[items], bank.geometry)
    reads, extra = TRANSFORMS[fitted.transform].reads, {}
    if 'bank_gallery' in reads:
        extra['bank_gallery'] = score_tiles(texts, Vectors.of(seen, bank.geometry))
    if 'item_bank' in reads:
        extra['item_bank'] = side_by_side(
            score_tiles(seen, gallery), score_tiles(seen, further), 'item_bank'
        )
    options = dict(fitted.options)
    if 'neighbours' in options and fitted.active is None:  # else a number of items
        options['neighbours'] = min(options['neighbours'], len(texts))
    if options.get('bank_marginals') is not None:
        weights = options['bank_marginals'][rows]
        options['bank_marginals'] = weights / weights.sum()
    both = side_by_side(score_tiles(texts, gallery), score_tiles(texts, further), 'bank')
    part = fit_biases(fitted.transform, both, extra_inputs=extra, **options)
    biases, active = part.items, part.active
    biases = part.fitted_transform.of_a_part(biases, len(texts) / len(bank.texts))
    mine = biases[len(gallery) + place]
    wide = torch.cat([biases[: len(gallery)].expand(len(own_items), -1), mine], dim=1)
    if active is not None:
        # A text of an item that the gallery holds finds it: as in the whole fit.
        mine = active[len(gallery) + place]
        mine = torch.where((copy < 0).to(mine.device), mine, fitted.active.to(mine.device)[copy])
        active = torch.cat([active[: len(gallery)].expand(len(own_items), -1), mine], dim=1)
    return part._replace(items=wide, active=active)
