"""What effects.py compares: all methods, conditions and families."""

from __future__ import annotations

from typing import Mapping

from comparison import chances, combinations, first_round, general, ladders
from comparison.kinds import Condition, Family, Method

METHODS: Mapping[str, Method] = {
    **first_round.METHODS,
    **general.METHODS,
    **combinations.METHODS,
    **chances.METHODS,
    **ladders.METHODS,
}
CONDITIONS: Mapping[str, Condition] = {
    **general.CONDITIONS,
    **combinations.CONDITIONS,
    **chances.CONDITIONS,
    **ladders.CONDITIONS,
    **first_round.CONDITIONS,
}
FAMILIES: dict[str, Family] = {
    **general.FAMILIES,
    **combinations.FAMILIES,
    **chances.FAMILIES,
    **ladders.FAMILIES,
    **first_round.FAMILIES,
}
#: What is the summed scores of two trainings of another method, one of the seed and one of that
#: seed + ``APART``.
SUMS = {'two_seeds': 'infonce'}
APART = 100


def is_fair(condition: Condition) -> bool:
    """Whether its family has the fair protocol; conditions of no family have not."""
    family = FAMILIES.get(condition.family)
    return family is not None and family.fair
