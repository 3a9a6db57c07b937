"""Choice of a gallery's transform from its bank alone.

No test query and no test label is read.  How the rule was found and judged:
projects/lab/evidence/pages/auto_rule.md.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.arrays.inputs import Bank, products
from mmvtr.functional.metrics.ranks import ranks
from mmvtr.functional.transforms.item_biases import fit_biases
from mmvtr.functional.uncertainty.isotonic import bin_sums

#: Candidate temperatures as shares of the score gap, and marginal penalties (1 = Sinkhorn, less =
#: milder).
TEMPERATURES = ('6.7%', '11%', '20%', '30%')
PENALTIES = (1.0, 0.8, 0.5)
#: Smallest bank from which a transform is chosen.
LEAST = 50
#: Largest number of pairs read; a larger bank is sampled.
MOST = 2000
#: Number of random halvings of the pairs.
HALVINGS = 4
#: The setting of a bank without pairs.  With pairs, another setting replaces it if it gains more
#: than it by OTHER standard errors; a transform is used only if it gains over RAW standard errors.
USUAL = ('unbalanced_sinkhorn', dict(temperature='11%', marginal_penalty=0.8))
OTHER, RAW = 3.0, 0.0
#: Mean reciprocal rank of the raw scores on bank pairs above which the reason for 'raw' adds that
#: the model may have been trained on them.
BY_HEART = 0.7


class Pairs(NamedTuple):
    """The pairs of a bank, and the scores of its queries with its items.

    Attributes:
        rows: int64 [P, 2], different pairs of a query and an item of the bank.
        scores: queries int64 [p], items int64 [m] -> float [p, m].
    """

    rows: Tensor
    scores: Callable[[Tensor, Tensor], Tensor]


class Choice(NamedTuple):
    """A chosen transform.

    Attributes:
        transform: its name; None = scores as they are.
        options: its options.
        why: a sentence that gives the reason.
    """

    transform: Optional[str]
    options: dict[str, Any]
    why: str


def candidates() -> list[tuple[str, dict[str, Any]]]:
    """Return the candidate settings as (transform, options)."""
    return [
        ('sinkhorn', dict(temperature=temperature))
        if penalty == 1
        else ('unbalanced_sinkhorn', dict(temperature=temperature, marginal_penalty=penalty))
        for penalty in PENALTIES
        for temperature in TEMPERATURES
    ]


def choose(bank: Optional[Bank], *, seed: int = 0) -> Choice:
    """Return a transform for a gallery, or none.

    Args:
        bank: its pairs are halved, four times: the texts of one half are queries for the videos of
            that half, the texts of the other half are their bank.  The usual setting is chosen, or
            another one whose mean reciprocal rank is clearly higher; raw if the chosen one gains
            nothing.  Without pairs, the usual setting.
        seed: random seed of the halves.
    """
    if bank is None:
        return Choice(None, {}, 'raw: without a bank nothing says which items are hubs')
    pairs = None
    if bank.pairs is not None:
        pairs = Pairs(
            bank.pairs, lambda x, y: products(bank.texts[x], bank.items[y], bank.geometry)
        )
    return choose_by_scores(len(bank.texts), pairs, said=bank.said, seed=seed)


def choose_by_scores(
    queries: int, pairs: Optional[Pairs] = None, *, said: Optional[str] = None, seed: int = 0
) -> Choice:
    """Choose as :func:`choose` does, from scores instead of vectors.

    Args:
        queries: number of different bank queries.
        pairs: the bank's pairs; None = not known.
        said: how messages call the bank.
        seed: random seed of the halves.
    """
    said = said or f'{queries} different bank queries'
    if queries < LEAST:
        return Choice(None, {}, f'raw: {said} are too few to decide (at least {LEAST})')
    if pairs is None:
        name, options = USUAL
        why = f'{name}: {said} without their own items, so {_told(options)}, not tried'
        return Choice(name, dict(options), why)
    return _by_pairs(pairs, seed)


def _by_pairs(bank_pairs: Pairs, seed: int) -> Choice:
    generator = torch.Generator().manual_seed(seed)
    pairs = bank_pairs.rows[torch.randperm(len(bank_pairs.rows), generator=generator)[:MOST]]
    items, group = pairs[:, 1].unique(return_inverse=True)
    if len(items) < LEAST:
        few = f'raw: {len(items)} different bank items are too few to decide (at least {LEAST})'
        return Choice(None, {}, few)
    scores = bank_pairs.scores(pairs[:, 0], items).float().cpu()
    tried = candidates()
    gains = torch.zeros(len(tried), len(pairs), dtype=torch.float64)
    for _ in range(HALVINGS):
        first = torch.rand(len(items), generator=generator).argsort() < len(items) // 2
        for half in (first, ~first):
            queries = half[group]
            gains[:, queries] += _gains(scores, group, queries, half, tried) / HALVINGS
    usual, best = tried.index(USUAL), int(gains.mean(1).argmax())
    further = gains[best] - gains[usual]
    clear = further.mean() > OTHER * _standard_error(further, group)
    taken = best if clear else usual
    mean, error = gains[taken].mean(), _standard_error(gains[taken], group)
    name, options = tried[taken]
    effect = (
        f'{len(pairs)} held-out bank pairs: {name} ({_told(options)}) changes their mean '
        f'reciprocal rank by {100 * mean:+.1f} points (standard error {100 * error:.1f})'
    )
    if mean > RAW * error:
        return Choice(name, options, f'{name}: {effect}')
    raw_mrr = (1 / ranks(scores, group[:, None] == torch.arange(len(items)))).mean()
    heart = '; if the model was trained on these pairs, give the texts alone'
    return Choice(None, {}, f'raw: {effect}, no gain' + heart * bool(raw_mrr > BY_HEART))


def _told(options: dict[str, Any]) -> str:
    return ', '.join(f'{key} {value}' for key, value in options.items())


def _gains(
    scores: Tensor, group: Tensor, queries: Tensor, half: Tensor, tried: list[tuple[str, dict]]
) -> Tensor:
    """Return each candidate's gain in 1 / rank for the queries of a half, float64 [S, q]."""
    mine, bank = scores[queries][:, half], scores[~queries][:, half]
    place = torch.cumsum(half, 0) - 1
    match = torch.zeros_like(mine, dtype=torch.bool)
    match[torch.arange(len(mine)), place[group[queries]]] = True
    before = 1 / ranks(mine, match)
    changed = (mine + fit_biases(name, bank, **options).items for name, options in tried)
    return torch.stack([1 / ranks(debiased, match) - before for debiased in changed])


def _standard_error(gains: Tensor, group: Tensor) -> float:
    """Return the mean gain's standard error, clustered by video (its texts are dependent)."""
    videos = int(group.max()) + 1
    sums = bin_sums(gains - gains.mean(), group, videos)
    return (sums.square().sum().sqrt() * (videos / (videos - 1)) ** 0.5 / len(gains)).item()
