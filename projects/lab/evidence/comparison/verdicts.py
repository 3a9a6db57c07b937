"""What a row does, in one word: the rule that pages/comparison_tables.md states."""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

from comparison.files import BOTH_MAP, T2V_RSUM, V2T_RSUM, Row
from comparison.statistics import Difference

#: By measure, the difference that would matter, in points: an interval says "nothing" where it lies
#: within, and only there.
MATTERS = {
    'semantic/v2t_P1': 5.0,
    'semantic/t2v_mAP': 2.0,
    'semantic/v2t_mAP': 2.0,
    BOTH_MAP: 2.0,
    'relevance/avg_nDCG': 2.0,
    'retrieval/rsum': 10.0,
    T2V_RSUM: 5.0,
    V2T_RSUM: 5.0,
}
#: Verdicts in bold.
RESOLVED = ('helps', 'harms', 'trade')
#: A training has collapsed whose t2v R@1 + R@5 + R@10 is at most this many times that of chance.
COLLAPSED = 2.0


class Truth(NamedTuple):
    """Differences in what is true, in both directions: mAP of the whole lists."""

    t2v: Optional[Difference] = None
    v2t: Optional[Difference] = None

    def trades(self, aim: str, gain: Difference) -> bool:
        """Whether one direction gains truth and the other loses it, by their intervals.

        Args:
            aim: key of a measure that is one of either direction, or of both.
            gain: the difference in it, which counts beside the mAP of its direction.
        """
        signs = {way: {known.sign} if known else set() for way, known in zip(self._fields, self)}
        for way, found in signs.items():
            if aim.startswith(f'semantic/{way}'):
                found.add(gain.sign)
        pairs = (self._fields, self._fields[::-1])
        return any(1 in signs[one] and -1 in signs[other] for one, other in pairs)


def collapsed_seeds(row: Row, chance: Optional[float]) -> tuple[int, ...]:
    """Seeds whose training has learnt nothing: their scores find pairs about as chance does.

    Told in t2v only.  In v2t a row may lose all paired recall by finding what is true, as oracles
    do, whose v2t R@1 is at chance where their v2t P@1 is near 100.

    Args:
        row: of any method.
        chance: ``T2V_RSUM`` of equal scores; None = not known, and nothing can be told.
    """
    if chance is None:
        return ()
    return tuple(s for s, value in row.values(T2V_RSUM).items() if value <= COLLAPSED * chance)


def of_aim(word: str, aim: Difference, matters: float) -> str:
    """What the aim alone says, where a verdict is that of the cost: see :func:`verdict`."""
    if word == 'costs':
        return 'not resolved'
    if word == 'trade':
        return {1: 'helps', -1: 'harms'}.get(aim.sign, 'not resolved')
    if word == 'harms' and max(-aim.low, aim.high) <= matters:
        return 'nothing'
    return word


def word_said(word: str, aim: Difference, matters: float) -> str:
    """A verdict as a table has it: 'costs, aim not resolved', '**helps**'."""
    said = f'**{word}**' if word in RESOLVED else word
    alone = of_aim(word, aim, matters)
    return said if word == 'trade' or alone == word else f'{said}, aim {alone}'


def verdict(
    aim: Optional[Difference],
    cost: Optional[Difference],
    *,
    matters: float,
    lower: bool = False,
    holds: bool = True,
    trades: bool = False,
) -> str:
    """What a row does, by two intervals.

    Args:
        aim: difference to its control in the measure that the condition spoils.
        cost: the same in paired recall; None where that is the aim.
        matters: the least difference in the aim that would matter, > 0.
        lower: whether a lower aim is better.
        holds: whether a difference in the aim holds when it is corrected for how many are shown.
        trades: whether truth is gained in one direction and lost in the other.

    Returns:
        - 'trade' if it ``trades``;
        - else 'nothing' if the interval of the aim lies within +- ``matters``, but 'harms' if that
          of the cost is below 0;
        - else 'helps' or 'harms' if it excludes 0, and that holds;
        - else 'not resolved', or 'costs' if the interval of the cost is below 0;
        - 'unknown' where nothing was measured, or by one seed only.
    """
    if aim is None or math.isinf(aim.high):
        return 'unknown'
    if trades:
        return 'trade'
    loses = cost is not None and cost.sign < 0
    if max(-aim.low, aim.high) <= matters:
        return 'harms' if loses else 'nothing'
    if aim.sign and holds:
        return 'helps' if (aim.sign > 0) != lower else 'harms'
    return 'costs' if loses else 'not resolved'
