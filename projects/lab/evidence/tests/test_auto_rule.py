"""What a rule is judged on had no part in choosing it."""

import runpy
from pathlib import Path

import numpy as np

TOOL = runpy.run_path(str(Path(__file__).parents[1] / 'auto_rule.py'), run_name='auto_rule')


def test_a_set_chooses_nothing_for_itself():
    """Rule 0 shines on the set that is left out alone, rule 1 on the others."""
    names = ['a', 'a', 'b', 'c']
    gains = np.array([[9.0, 9.0, -1.0, -1.0], [1.0, 1.0, 2.0, 2.0]])
    judged, chosen = TOOL['left_out'](gains, names)
    assert judged.tolist() == [1.0, 1.0, -1.0, -1.0] and chosen == [1, 0, 0]
    assert [TOOL['corpus_of'](x) for x in ('minilm flickr8k_crowd', 'clip flickr8k')] == [
        'flickr8k'
    ] * 2


def test_the_rule_as_it_is_is_one_of_those():
    shipped = TOOL['shipped']()
    assert shipped in TOOL['rules']() and len(shipped.grid) == 12
    mean = np.zeros(24)
    mean[shipped.grid[0]], mean[shipped.usual] = 2.0, 1.0
    seen, above = np.arange(24.0), np.ones(24)
    for clear, taken in ((2.0, shipped.usual), (4.0, shipped.grid[0])):
        cell = TOOL['Cell']('a', 't2v', seen, mean, np.full((24, 24), clear), above)
        assert TOOL['picked'](cell, shipped) == taken
        assert TOOL['picked'](cell._replace(above=-above), shipped) == 0
