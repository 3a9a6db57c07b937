"""Lengths, distributions, intervals, occurrences: what is drawn of numbers known by hand."""

import numpy as np
import pytest
import torch
from PIL import Image

from drawings.spreads import (
    Spread,
    absolute_gaps,
    distributions,
    length_gaps,
    mean_lengths,
    occurrence_and_errors,
)
from mmvtr.evaluation.differences import Difference
from mmvtr.functional import error_rates_by_mass
from mmvtr.visualization import canvas, save
from mmvtr.visualization.difference_rows import difference_rows
from mmvtr.visualization.hubness import DIRECTIONS, MASS_EDGES


def legend(axis):
    return [text.get_text() for text in axis.get_legend().get_texts()]


def test_lengths():
    gaps = np.array([-5.0, 3.0, 0.0, 2.0])
    assert legend(length_gaps(gaps, unit='frames', linear=9.0).axes[0]) == [
        'longer in test: 2 actions',
        'longer in train: 1 actions',
    ]
    axis = absolute_gaps(gaps, (2.0, 3.0), unit='s').axes[0]
    assert legend(axis) == ['more than 2: 2 actions', 'at least 3: 2 actions']
    assert [line.get_ydata()[0] for line in axis.lines] == [2.0, 3.0]
    assert axis.get_yscale() == 'symlog' and '(s)' in axis.get_ylabel()
    train = np.array([1.0, 2.0, 3.0, 2.0, 90.0])
    inner, whole = mean_lengths(train, train[::-1], unit='s').axes
    assert whole.collections[0].get_offsets().tolist() == [*map(list, zip(train, train[::-1]))]
    assert inner.get_title() == 'without outliers: 3 actions'
    with pytest.raises(ValueError, match=r'test of shape \[1\], expected \[5\]'):
        mean_lengths(train, [1.0], unit='s')


def test_shares_of_each_kind():
    kinds = dict(a=np.array([0.0, 0.1, 1.0, 1.0]), b=np.array([1.0]), none=np.array([]))
    figure = distributions([Spread(kinds, {'tau': 0.5}, 's')], title='t', y='%', bins=2)
    (axis,) = figure.axes
    shares = {step.get_label(): step.get_data().values.tolist() for step in axis.patches}
    assert shares == {'a (4)': [50, 50], 'b (1)': [0, 100], 'none (0)': [0, 0]}
    assert axis.lines[0].get_xdata() == [0.5, 0.5] and legend(axis)[-1] == 'tau'
    with pytest.raises(ValueError, match='5 kinds, at most 4'):
        distributions([Spread(dict.fromkeys('abcde', [1.0]), {}, 's')], title='t', y='%')


def test_intervals():
    numbers = dict(base=0.0, own=0.0, over='seeds', seeds=2)
    ends = dict(mean=2.0, low=1.0, high=3.0, p=0.01, queries=9, gained=5, lost=1)
    rows = [Difference('b', 'x', **numbers, **ends, corrected=0.01)]
    ends = dict(mean=-1.0, low=-np.inf, high=np.inf, p=1.0, lost=4)
    rows += [Difference('b', 'y', **numbers, **ends)]
    effect, counts = difference_rows(rows).axes
    drawn = [(line.get_xdata().tolist(), line.get_color()) for line in effect.lines[:3]]
    assert drawn == [([1.0, 3.0], canvas.GREEN), ([2.0], canvas.GREEN), ([-1.0], canvas.GREY)]
    assert [bar.get_width() for bar in counts.patches] == [5, -1, 0, -4]


def test_occurrences():
    """Everybody finds video 0 first; k is cut to what there is."""
    known = torch.eye(4, dtype=torch.bool)
    scores = known.float()
    scores[:, 0] += 2
    rates = {
        direction: error_rates_by_mass(scores, known, temperature=1.0, dim=dim, edges=MASS_EDGES)
        for direction, dim in zip(DIRECTIONS, (1, 0))
    }
    matrices = dict(raw=(scores, scores), mended=(known.float(), known.float()))
    axis = occurrence_and_errors(matrices, rates, k=1, title='t').axes[0]
    heights = [bar.get_height() for bar in axis.patches]  # of N_1 = 0, 1, 2, 3-4, 5-8
    assert heights == [75, 0, 0, 25, 0]
    assert axis.lines[0].get_ydata().tolist() == [0, 100, 0, 0, 0]
    assert axis.get_xlabel() == 'text queries that have a video among their 1 best'


def test_few_colours_and_other_files(tmp_path):
    figure = canvas.new_figure(1, width=1)
    figure.set_layout_engine('none')
    figure.set_facecolor('#ff0000')
    axis = figure.add_axes((0, 0, 0.4, 1))
    axis.set_facecolor('#0000ff')
    axis.set(xticks=[], yticks=[])
    save(figure, tmp_path / 'few.png', colours=2)
    colours = {colour for _, colour in Image.open(tmp_path / 'few.png').convert('RGB').getcolors()}
    assert colours == {(255, 0, 0), (0, 0, 255)}  # the black frame is near to one of them
    save(figure, tmp_path / 'a/x.pdf')
    assert (tmp_path / 'a/x.pdf').read_bytes().startswith(b'%PDF')
    with pytest.raises(ValueError, match="'xyz' is not supported"):
        save(figure, tmp_path / 'x.xyz')
    assert sorted(path.name for path in tmp_path.iterdir()) == ['a', 'few.png']
