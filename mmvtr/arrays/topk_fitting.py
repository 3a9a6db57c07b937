"""Calibration of P(right) of the places of a list, on lists of held-out bank texts.

A function of the score alone does not know that a place is the first; P is therefore calibrated
on lists, from the scores that rank them.  A held-out text queries the gallery with its own item
added, under biases of nine tenths of the bank: biases of less of it rank worse.  Of the text's
further items, all right too, the list has those that the gallery holds, and of the others as many
as are expected in a gallery of its size.
"""

from __future__ import annotations

import math
from typing import Callable, Optional, Sequence

import torch
from torch import Tensor

from mmvtr.arrays.answers import SHARES
from mmvtr.arrays.inputs import Bank, Vectors
from mmvtr.arrays.judged_lists import JudgedLists
from mmvtr.arrays.shift import Asked
from mmvtr.arrays.topk_probabilities import LEAST, LENGTHS, TopKProbabilities, logit
from mmvtr.functional.transforms.item_biases import ItemBiases
from mmvtr.functional.uncertainty.calibration_fits import platt_line

#: Largest numbers of pairs and of their scores that are read.
MOST, SCORES = 2000, 2**25
#: Number of folds: a held-out text is scored under biases of the other folds' texts.
FOLDS = 10
#: Steps of the search for the temperature, and its range as shares of the spread of scores.
STEPS, LOWEST, HIGHEST = 24, 1e-3, 10.0


@torch.no_grad()
def fit_topk_probabilities(
    bank: Optional[Bank],
    gallery: Vectors,
    fitted: Optional[ItemBiases],
    *,
    seed: int = 0,
    depth: int = 0,
) -> TopKProbabilities:
    """Return place probabilities calibrated on the bank's own pairs.

    Args:
        bank: a bank with pairs.
        gallery: N items.
        fitted: the biases that rank them; None = raw scores.
        seed: random seed.
        depth: number of best places that sums read, if an engine returns no more; 0 = all.

    Raises:
        ValueError: no pairs, or too few.
    """
    if bank is None or bank.pairs is None:
        raise ValueError('P(right) needs a bank with pairs: bank=(texts, videos)')
    items = len(bank.items)
    if items < LEAST:
        raise ValueError(f'{items} different bank videos are too few: at least {LEAST}')
    generator = torch.Generator().manual_seed(seed)
    columns = len(gallery) + int(bank.pairs[:, 0].bincount().max())
    most = max(4 * LEAST, min(MOST, SCORES // columns))
    order = torch.randperm(len(bank.texts), generator=generator)[bank.pairs[:, 0]]
    pairs = bank.pairs[order.argsort(stable=True)]  # those of a text stay together
    half = torch.rand(items, generator=generator).argsort() < items // 2
    first = half[_leads(pairs)]
    read = torch.arange(len(pairs)) < most

    def of(held_out: Tensor, bank_pairs: Tensor) -> JudgedLists:
        rest = bank_pairs[~_shared(bank_pairs, held_out)]
        return JudgedLists.of(bank, gallery, fitted, held_out, rest, generator).cut(depth)

    fit = _fitted(
        _folded(of, pairs[:most], pairs),
        _folded(of, pairs[first & read], pairs[first]),
        of(pairs[~first & read], pairs[first]),
        generator,
    )
    asked_texts = Asked.of(bank, torch.Generator().manual_seed(seed))
    return fit._replace(depth=depth, items=len(gallery), most=most, asked=asked_texts)


def calibrate_topk(scores: Tensor, right: Tensor, *, seed: int = 0) -> TopKProbabilities:
    """Return place probabilities calibrated on judged lists of any ranker.

    Args:
        scores: float [Q, K], ranking scores in any order; -inf where a list is shorter.
        right: bool [Q, K]; a list may have several right places, or none.
        seed: random seed of the halves.

    Raises:
        ValueError: shapes that differ, too few lists, or a half of them without a right place.
    """
    if scores.dim() != 2 or scores.shape != right.shape:
        raise ValueError(f'scores {[*scores.shape]} and right {[*right.shape]} must be [Q, K]')
    if len(scores) < LEAST:
        raise ValueError(f'{len(scores)} lists are too few: at least {LEAST}')
    generator = torch.Generator().manual_seed(seed)
    half = torch.rand(len(scores), generator=generator).argsort() < len(scores) // 2
    parts = (JudgedLists(scores[rows].float(), right[rows].bool()) for rows in (half, ~half))
    first, second = parts
    if not (first.right.any() and second.right.any()):
        raise ValueError('in one half of the lists no place is right')
    return _fitted([first, second], [first], second, generator)


def _fitted(
    whole: Sequence[JudgedLists],
    first: Sequence[JudgedLists],
    tested: JudgedLists,
    generator: torch.Generator,
) -> TopKProbabilities:
    """Fit lines to all lists; temperature and thresholds to one half, tested on the other half.

    The tested lists influence neither the tested share nor its thresholds; and as the line from
    share to P is increasing, it moves no query over a threshold.
    """
    temperature = _temperature(first)
    shares = torch.cat([x.cumulated(temperature)[:, 0] for x in first])
    levels = shares.quantile(1 - torch.tensor(SHARES, dtype=torch.float64))
    cumulated = torch.cat([x.cumulated(temperature) for x in whole])
    ranks = torch.cat([x.ranks(generator) for x in whole])
    lines = [
        platt_line(logit(cumulated[:, min(k, cumulated.shape[1]) - 1]), (ranks <= k).double())
        for k in LENGTHS
    ]
    share = tested.cumulated(temperature)[:, 0]
    return TopKProbabilities(
        temperature, torch.stack(lines), share, tested.ranks(generator) == 1, levels
    )


def _folded(of: Callable[..., JudgedLists], held_out: Tensor, rest: Tensor) -> list[JudgedLists]:
    """Return cross-fitted lists of the pairs ``held_out``: biases of the other folds' pairs."""
    leads = _leads(held_out)
    items = leads.unique()
    folds = min(FOLDS, math.ceil(FOLDS * len(items) / len(_leads(rest).unique())))
    lists = []
    for number in range(folds):
        out = held_out[torch.isin(leads, items[number::folds])]
        if len(out) and not _shared(rest, out).all():
            lists.append(of(out, rest))
    return lists


def _leads(pairs: Tensor) -> Tensor:
    """Return the first item of the text of each pair, int64 [p]: it decides the text's part."""
    texts = pairs[:, 0].unique(return_inverse=True)[1]
    first = pairs.new_zeros(len(pairs)).scatter_reduce(
        0, texts, pairs[:, 1], 'amin', include_self=False
    )
    return first[texts]


def _shared(pairs: Tensor, held_out: Tensor) -> Tensor:
    """Return which pairs have a text or an item of the pairs ``held_out``, bool [p]."""
    return torch.isin(pairs[:, 0], held_out[:, 0]) | torch.isin(pairs[:, 1], held_out[:, 1])


def _temperature(lists: Sequence[JudgedLists]) -> float:
    """Return the temperature of the highest likelihood of the right items, by golden section."""
    every = torch.cat([x.every for x in lists])
    step = min(every.numel() // SCORES * 8, len(every) // LEAST)  # at least LEAST lists
    rows = slice(None, None, max(1, step))
    right = torch.cat([x.right for x in lists])[rows]
    some = JudgedLists(every[rows][right.any(1)], right[right.any(1)])
    finite = some.every.isfinite()
    mean = some.every.where(finite, 0).sum(1) / finite.sum(1)
    spread = (some.every.amax(1) - mean).mean().item()
    if not spread > 0:
        raise ValueError('all items score alike with the bank: no place is worth more than another')

    def loss(exponent: float) -> float:
        return some.losses(spread * math.exp(exponent)).mean().item()

    low, high = math.log(LOWEST), math.log(HIGHEST)
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(STEPS):
        first, second = high - ratio * (high - low), low + ratio * (high - low)
        if loss(first) < loss(second):
            high = second
        else:
            low = first
    return spread * math.exp((low + high) / 2)
