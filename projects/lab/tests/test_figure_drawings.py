"""Drawings of the papers' figures: bad input raises clear errors."""

import numpy as np
import pytest

from mmvtr.visualization.canvas import pixels
from paper_figures.changes import moved_ranks, recall_by_size, sigma_over_epochs
from paper_figures.matrices import compared_matrices
from paper_figures.negatives import negatives_of_query
from paper_figures.plane import bars, modality_plane
from paper_figures.relevance_strips import RelevanceStrip, relevance_strips

EYE = np.eye(3)
STRIP = RelevanceStrip('a query', {'a': [0.0, 1.0]}, {'a': 50.0})
NAN = np.array([1.0, np.nan])


@pytest.mark.parametrize(
    ('draw', 'said'),
    [
        (lambda: compared_matrices({}), '0 matrices, expected one or two'),
        (lambda: compared_matrices({'a': EYE, 'b': np.eye(4)}), r'expected \[3, 3\]'),
        (lambda: compared_matrices({'a': np.eye(25)}), '25 texts and videos, expected at most 24'),
        (lambda: compared_matrices({'a': EYE}, text_names='ab'), 'text_names: 2 names, expected 3'),
        (lambda: negatives_of_query(NAN, NAN, NAN, NAN), r'eta is nan at \[1\]'),
        (lambda: negatives_of_query([0.5], [-1.0], [0.0], [0.5]), 'a loss of -1, expected at'),
        (lambda: modality_plane({'a': (EYE, EYE)}, EYE, method='umap'), "not 'umap'"),
        (lambda: modality_plane({'a': (EYE, EYE * 0)}, EYE), 'videos of a: row 0 has the norm 0'),
        (lambda: modality_plane({'a': (EYE[:1], EYE)}, EYE[:1]), 'texts of a: 1 of them'),
        (lambda: bars({}, (), title='', y=''), 'no bars to draw'),
        (lambda: bars({'a': [1.0]}, ('x', 'y'), title='', y=''), r'expected \[2\]'),
        (
            lambda: bars(dict.fromkeys('abcdefghijk', [1.0]), 'x', title='', y=''),
            '11 groups of bars',
        ),
        (lambda: relevance_strips({}, title=''), 'as many queries of each direction'),
        (
            lambda: relevance_strips({'a': [STRIP], 'b': []}, title=''),
            "as many queries of each direction expected, got {'a': 1, 'b': 0}",
        ),
        (
            lambda: relevance_strips({'a': [STRIP._replace(rows={'a': [2.0]})]}, title=''),
            'relevances must lie in',
        ),
        (lambda: moved_ranks([0.0], [1.0], names=('a', 'b'), title=''), 'ranks start at 1'),
        (lambda: sigma_over_epochs([1], {}), 'two epochs or more expected'),
        (lambda: sigma_over_epochs([2, 1], {}), 'each once and in order'),
        (lambda: recall_by_size([2, 1], {}, {}, title=''), 'sizes must rise'),
    ],
)
def test_refused(draw, said):
    with pytest.raises(ValueError, match=said):
        draw()


@pytest.mark.parametrize(('size', 'letters', 'of_texts'), [(2, 1, 1), (2, 9, 40), (8, 9, 40)])
def test_names_of_any_length_leave_the_titles_in_the_picture(size, letters, of_texts):
    names = dict(text_names=['m' * of_texts] * size, video_names=['W' * letters] * size)
    scores = np.random.default_rng(0).random((2, size, size))
    figure = compared_matrices(dict(zip(('abc', 'abcabc'), scores)), np.eye(size), **names)
    pixels(figure)  # lays it out
    for axis in figure.axes:
        ticks = (*axis.get_xticklabels(), *axis.get_yticklabels())
        for text in (axis.title, axis.xaxis.label, axis.yaxis.label, *ticks):
            box = text.get_window_extent()
            inside = min(box.x0, box.y0) > -1 and box.x1 < figure.bbox.width + 1
            assert not text.get_text() or (inside and box.y1 < figure.bbox.height + 1)
