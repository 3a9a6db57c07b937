"""The transforms of the judged benchmark over their settings.

Temperatures are shares of the *score gap* of a matrix: how far a query's best score lies above its
mean score, on average over the queries.  So they mean the same for scores of any scale.
"""

from __future__ import annotations

from typing import Callable, Iterator, Mapping, NamedTuple

from torch import Tensor

from mmvtr import functional as fn

#: Of the temperatures; .067 of the score gap is .03 for the TF-IDF of Flickr8k.
SHARES = (0.02, 0.045, 0.067, 0.11, 0.22)
NEIGHBOURS = (3, 10, 20, 50)
PENALTIES = (0.5, 0.7, 0.8, 0.9)
#: Of both kinds of Sinkhorn.
ITERATIONS = 10


class Setting(NamedTuple):
    """One point of a front.

    Attributes:
        transform: name.
        share: of the score gap, its temperature; 0 = it has none.
        other: k of CSLS (at most all there are), the marginal penalty, or the part of a shrunk
            bias; 0 = it has none.
    """

    transform: str
    share: float = 0.0
    other: float = 0.0

    def __str__(self) -> str:
        words = [f'T {self.share:g}'] if self.share else []
        name = dict(csls='k', unbalanced_sinkhorn='p', shrunk_sinkhorn='x').get(self.transform)
        return ', '.join(words + ([f'{name} {self.other:g}'] if name else [])) or '-'

    def apply(self, scores: Tensor, bank: Tensor) -> Tensor:
        """Scores [Q, N] of queries and [K, N] of a bank -> [Q, N]."""
        return FUNCTIONS[self.transform](scores, bank, self.share * score_gap(bank), self.other)


def score_gap(scores: Tensor) -> float:
    """How far the best score of a row lies above its mean, on average."""
    return float((scores.amax(1) - scores.mean(1)).mean())


def settings() -> Iterator[Setting]:
    """All that are tried, raw first."""
    yield Setting('raw')
    for k in NEIGHBOURS:
        yield Setting('csls', 0, k)
    for name in ('qb_norm', 'inverted_softmax', 'dual_softmax', 'sinkhorn'):
        for share in SHARES:
            yield Setting(name, share)
    for share in SHARES[1:4]:
        yield Setting('shrunk_sinkhorn', share, 0.5)
        for marginal_penalty in PENALTIES:
            yield Setting('unbalanced_sinkhorn', share, marginal_penalty)


def _shrunk(scores: Tensor, bank: Tensor, temperature: float, share: float) -> Tensor:
    """Scores and a part of Sinkhorn's bias."""
    biases = fn.sinkhorn(bank, temperature=temperature, iterations=ITERATIONS)
    return scores + share * biases.columns


FUNCTIONS: Mapping[str, Callable[[Tensor, Tensor, float, float], Tensor]] = dict(
    raw=lambda s, g, t, x: s,
    csls=lambda s, g, t, x: fn.csls(s, g, neighbours=min(int(x), *g.shape)),
    qb_norm=lambda s, g, t, x: fn.qb_norm(s, g, temperature=t),
    inverted_softmax=lambda s, g, t, x: fn.inverted_softmax(s, g, temperature=t),
    dual_softmax=lambda s, g, t, x: fn.dual_softmax(s, g, temperature=t),
    sinkhorn=lambda s, g, t, x: fn.sinkhorn_scores(s, g, temperature=t, iterations=ITERATIONS),
    shrunk_sinkhorn=_shrunk,
    unbalanced_sinkhorn=lambda s, g, t, x: fn.unbalanced_sinkhorn(
        s, g, temperature=t, marginal_penalty=x, iterations=ITERATIONS
    ),
)
