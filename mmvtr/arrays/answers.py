"""Which queries may be answered at a wanted precision: Learn then Test (arXiv 2110.01052)."""

from __future__ import annotations

import math
from typing import NamedTuple, Optional, Sequence

import torch

#: Shares of the queries to answer, at which a precision is tested.
SHARES = tuple(n / 20 for n in range(1, 21))
#: The first tested share is expected to hold this many times the queries that can pass.
ROOM = 1.5
#: Largest number of pairs of which it is asked whether a precision can be had from them.
NEEDED = 20_000


class Answers(NamedTuple):
    """What may be answered at a wanted precision.

    Attributes:
        precision: wanted share of right first places among the answers.
        error: probability that it fails, over the draw of the bank.
        threshold: lowest P(first place is right) of an answer; infinite = no query is answered.
        share: share of the held-out queries that reach it.
        pairs: number of pairs at hand.
        needed: number of pairs at which a threshold is expected; None = not at NEEDED either.
        then: share of the queries that would be answered with them.
        most: number of pairs that can be read for such a gallery; 0 = not known.
    """

    precision: float
    error: float
    threshold: float
    share: float
    pairs: int
    needed: Optional[int]
    then: Optional[float]
    most: int

    def __str__(self) -> str:
        goal = f'precision {self.precision:g} (to hold in {1 - self.error:.0%} of the banks)'
        if self.threshold < math.inf:
            return f'{goal}: answer from P {self.threshold:.3f} on, {self.share:.0%} of the queries'
        refusal = f'no query can be answered at {goal} from {self.pairs} pairs'
        if self.needed is None:
            return (
                f'{refusal}, nor does their P promise it from {NEEDED}: ask for a lower precision'
            )
        read = ''
        if 0 < self.most < self.needed:
            read = f', but at most {self.most} are read for a gallery of this size'
        answers = f'to answer {self.then:.0%} of the queries'
        return f'{refusal}: about {self.needed} are needed, {answers}{read}'


def lowest_level(
    counts: Sequence[int], wrong: Sequence[int], tested: int, precision: float, error: float
) -> Optional[int]:
    """Return the last level that passes the tests of a fixed sequence; None = none.

    Args:
        counts: held-out queries that reach each level, and
        wrong: those of them whose first place is wrong.
        tested: number of held-out queries.
    """
    least, passed = ROOM * math.log(error) / math.log(precision), None
    for place, share in enumerate(SHARES):
        if share * tested < least:
            continue
        if at_most(wrong[place], counts[place], 1 - precision) > error:
            break
        passed = place
    return passed


def at_most(wrong: int, count: int, rate: float) -> float:
    """Return P(at most ``wrong`` errors among ``count`` queries) at an error rate."""
    if not count:
        return 1.0
    k = torch.arange(wrong + 1, dtype=torch.float64)
    ways = math.lgamma(count + 1) - torch.lgamma(k + 1) - torch.lgamma(count - k + 1)
    terms = ways + k * math.log(rate) + (count - k) * math.log1p(-rate)
    return min(1.0, terms.logsumexp(0).exp().item())
