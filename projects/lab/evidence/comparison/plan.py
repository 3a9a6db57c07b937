"""What effects.py compares: all methods, conditions and families."""

from __future__ import annotations

from typing import Mapping

from comparison import chances, combinations, general, ladders, methods
from comparison.kinds import Condition, Family, Method

METHODS: Mapping[str, Method] = {
    **methods.METHODS,
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
}
FAMILIES: dict[str, Family] = {
    **general.FAMILIES,
    **combinations.FAMILIES,
    **chances.FAMILIES,
    **ladders.FAMILIES,
}
#: What is the summed scores of two trainings of another method, one of the seed and one of that
#: seed + ``APART``.
SUMS = {'two_seeds': 'infonce'}
APART = 100
