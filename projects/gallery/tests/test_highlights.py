import pytest

from mmvtr_gallery.highlights import highlight_figures

GRADES = {
    'a': [[0, 0, 0], [2, 3, 4], [3, 1, 4], [0, 0, 0]],
    'b': [[4, 4, 0], [0, 0, 0], [0, 0, 0]],
}


def test_by_hand():
    scores = {'a': [0.1, 0.2, 0.9, 0.3], 'b': [0.2, 0.9, 0.1]}
    found = highlight_figures(scores, GRADES)
    # a, fair: the people's highlights are ranked (3rd, 1st), (3rd), (3rd, 1st) of four.
    fair = [(1 + 2 / 3) / 2, 1 / 3, (1 + 2 / 3) / 2]
    # b: the first two people's is second, the third has none.
    half = [1 / 2, 1 / 2, 0]
    assert found['fair_map'] == pytest.approx(100 * (sum(fair) / 3 + sum(half) / 3) / 2)
    very_good = [0, 0, (1 + 2 / 3) / 2]
    assert found['very_good_map'] == pytest.approx(100 * (sum(very_good) / 3 + sum(half) / 3) / 2)
    assert found['fair_hit1'] == found['good_hit1'] == found['very_good_hit1'] == 50
    assert list(found)[:2] == ['fair_map', 'fair_hit1'] and len(found) == 6


def test_scores_of_another_number_of_parts():
    # What is missing has 0; the best part lies behind the video's end and hits nothing.
    few = highlight_figures({'b': [0.5]}, {'b': GRADES['b']})
    assert few['fair_map'] == pytest.approx(200 / 3) and few['fair_hit1'] == 100
    many = highlight_figures({'b': [0.5, 0.1, 0.1, 0.9]}, {'b': GRADES['b']})
    assert many['fair_map'] == pytest.approx(200 / 3) and many['fair_hit1'] == 0
    below = highlight_figures({'b': [-0.5]}, {'b': GRADES['b']})
    assert below['fair_map'] == pytest.approx(100 * 2 / 3 / 3)


def test_refuses():
    with pytest.raises(ValueError, match="not so: \\['b'\\]"):
        highlight_figures({'a': [0.1]}, GRADES)
    with pytest.raises(ValueError, match='NaN'):
        highlight_figures({'a': [float('nan')], 'b': [0]}, GRADES)
    with pytest.raises(ValueError, match='one score a part'):
        highlight_figures({'a': [], 'b': [0]}, GRADES)
    with pytest.raises(ValueError, match='each graded query'):
        highlight_figures({}, {})
