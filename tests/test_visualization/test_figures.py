"""What pictures show is what they were given; what cannot be drawn is refused in words."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from PIL import Image

from mmvtr.functional.metrics.hubness import k_occurrence, skewness
from mmvtr.visualization import (
    SheetItem,
    eta_against_loss,
    hubs,
    moment_curve,
    pixels,
    reliability_curve,
    retrieval_sheet,
    save,
    score_matrix,
    show,
    sigma_against_generality,
)
from mmvtr.visualization.canvas import ANNOTATED, OTHER, TRUE, words, wrapped

T, V = 60, 50
NONE = np.zeros((0, 1, 1, 3), np.uint8)


@pytest.fixture(scope='module')
def scores():
    return np.random.default_rng(0).normal(size=(T, V)).astype(np.float32)


@pytest.fixture(scope='module')
def positives():
    return np.arange(V) == np.arange(T)[:, None] % V


def outlined(axis):
    """(Row, column) of the cells with a frame."""
    return {tuple(int(x + 0.5) for x in reversed(patch.get_xy())) for patch in axis.patches}


def ticks(axis):
    return [tick.get_text() for tick in axis.get_yticklabels()]


# -- score matrix ------------------------------------------------------------------------------


def test_matrix(scores, positives):
    rows, columns = [3, 50, 7], [0, 3, 7, 9]
    truth = positives.copy()
    truth[7, [0, 9]] = True
    weights = np.random.default_rng(1).random((T, V))
    names = [f'a text ${t} and ${t}' for t in range(T)]
    figure = score_matrix(
        torch.from_numpy(scores),
        positives,
        torch.from_numpy(weights).bfloat16(),
        truth=truth,
        rows=rows,
        columns=columns,
        text_names=np.array(names),
    )
    left, right = figure.axes[:2]
    np.testing.assert_array_equal(left.images[0].get_array(), scores[rows][:, columns])
    drawn = right.images[0].get_array()
    np.testing.assert_array_equal(drawn.mask, positives[rows][:, columns])
    np.testing.assert_allclose(drawn.data, weights[rows][:, columns], atol=4e-3)
    assert right.images[0].get_clim() == (0, 1)
    for axis in (left, right):
        assert outlined(axis) == {(0, 1), (1, 0), (2, 2)}
        assert axis.collections[0].get_offsets().tolist() == [[0, 2], [3, 2]]
    assert ticks(left) == [f'a text ${t} and ${t}' for t in rows]
    assert '3 texts x 4 videos, cut from 60 x 50' in figure.get_suptitle()
    assert pixels(figure).shape[1] == 900  # dollars of a caption are no formula


def test_a_large_matrix_is_cut(scores, positives):
    figure = score_matrix(scores, positives)
    image = figure.axes[0].images[0].get_array()
    np.testing.assert_array_equal(image, scores[:48, :48])
    assert len(outlined(figure.axes[0])) == 48
    assert ticks(figure.axes[0]) == [str(t) for t in range(0, 48, 4)]
    small = score_matrix(scores[:2, :3], positives[:2, :3])
    assert small.get_suptitle() == '2 texts x 3 videos (outlined: annotated)'
    part = score_matrix(scores[:2, :3], positives[:2, :3], whole=(60, 50))
    assert part.get_suptitle().startswith('2 texts x 3 videos, cut from 60 x 50')


def test_matrix_refuses(scores, positives):
    bad = scores.copy()
    bad[5, 6] = np.nan
    for arguments, said in (
        ((scores[0], positives), r'scores of shape \[50\], expected \[any, any\]'),
        ((scores[:, :0], positives), 'scores .*: nothing to draw'),
        ((bad, positives), r'scores is nan at \[5, 6\]: finite'),
        ((scores.astype(str), positives), 'scores: numbers expected'),
        ((scores, positives[1:]), r'positives of shape \[59, 50\], expected \[60, 50\]'),
        ((scores, positives * 2), 'positives: true or false expected, got 2'),
        ((scores, positives, scores.T), 'weights of shape'),
    ):
        with pytest.raises(ValueError, match=said):
            score_matrix(*arguments)
    for options, said in (
        (dict(rows=[60]), 'rows: place 60, expected 0 to 59'),
        (dict(columns=[]), 'columns: 0 asked for, expected 1 to 48'),
        (dict(rows=range(49)), 'rows: 49 asked for'),
        (dict(video_names=['a']), 'video_names: 1 names, expected 50'),
        (dict(truth=positives[0]), 'truth of shape'),
    ):
        with pytest.raises(ValueError, match=said):
            score_matrix(scores, positives, **options)


# -- retrieval sheet ---------------------------------------------------------------------------


def flat(*colours):
    """A strip of frames of one colour each."""
    return np.stack([np.full((20, 30, 3), colour, np.uint8) for colour in colours])


def ticked(figure):
    """Colour of the tick of each row, or None."""
    rows = [axis for axis in figure.axes if axis.texts and 'score' in axis.texts[-1].get_text()]
    return [a.texts[0].get_color() if a.texts[0].get_text() == '✓' else None for a in rows]


def test_sheet_of_a_text():
    red, blue = (200, 10, 10), (10, 10, 200)
    items = [
        SheetItem('one', flat(red, blue), 0.75, 'annotated', -0.125, 0.5, (2.0, 3.0), 10.0),
        SheetItem('two', NONE, 0.5, 'judged', moment=(0.5, 1.0), lacking='broken'),
        SheetItem('three', flat(blue), 0.25),
    ]
    figure = retrieval_sheet('a $5 dog for $6', items, subtitle='best 3', sigma=0.25)
    assert figure.get_suptitle() == '"a $5 dog for $6"\nsigma of the query 0.25, best 3'
    said = [axis.texts[-1].get_text() for axis in figure.axes if axis.texts]
    assert said[0] == '1. one\nscore 0.750, bias -0.125, sigma 0.5\n2.0 to 3.0 s'
    assert said[1:3] == ['2. two\nscore 0.500\n50% to 100%', 'broken']
    assert ticked(figure) == [ANNOTATED, '#8A8A8A', None]
    strip = figure.axes[1]
    for image, colour in zip(strip.images, (red, blue)):
        assert (image.get_array() == colour).all()
    assert [line.get_xdata().tolist() for line in strip.lines[1:]] == [[0.2, 0.3]]
    assert figure.axes[3].lines[1].get_xdata().tolist() == [0.5, 1.0]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend[0] == 'annotated' and legend[2] == 'where it matches'


def test_pixels_of_a_sheet(tmp_path):
    """The red frame is left of the blue one, in the upper row."""
    items = [SheetItem('a', flat((255, 0, 0), (0, 0, 255)), 1.0)]
    items.append(SheetItem('b', flat((0, 255, 0)), 0.5))
    figure = retrieval_sheet('a text', items)
    image = pixels(figure)
    assert image.dtype == np.uint8 and image.shape[1:] == (900, 3)
    red, green, blue = ((image == 255 * colour).all(-1) for colour in np.eye(3))
    assert red.sum() > 5000 and abs(int(red.sum()) - int(blue.sum())) < 0.1 * red.sum()
    assert red.any(0).nonzero()[0].max() < blue.any(0).nonzero()[0].min()
    assert red.any(1).nonzero()[0].max() < green.any(1).nonzero()[0].min()
    save(figure, tmp_path / 'new' / 'sheet.png')
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / 'new' / 'sheet.png')), image)


def test_sheet_of_a_video():
    texts = [SheetItem('a man sings ' * 4, NONE, 0.5, 'annotated'), SheetItem('a dog', NONE, 0.4)]
    figure = retrieval_sheet(flat((9, 9, 9), (8, 8, 8)), texts)
    assert figure.get_suptitle() == 'The query is a video'
    assert [len(axis.images) for axis in figure.axes] == [0, 2, 0, 0]  # texts have no strips
    assert figure.axes[2].texts[-1].get_text().startswith('1. ' + 'a man sings ' * 3)
    assert ticked(figure) == [ANNOTATED, None]


@pytest.mark.parametrize(
    ('item', 'said'),
    [
        (
            SheetItem('x', np.zeros((2, 3, 3), np.uint8), 1.0),
            r"item 2 \('x'\): frames must be uint8",
        ),
        (SheetItem('x', np.zeros((2, 4, 4, 3)), 1.0), 'not float64'),
        (SheetItem('x', None, 1.0), 'not object'),
        (SheetItem('x', NONE, float('nan')), 'score must be a finite number, not nan'),
        (SheetItem('x', NONE, 1.0, bias='much'), "bias must be a finite number, not 'much'"),
        (SheetItem('x', NONE, 1.0, 'wrong'), "right must be one of .*, not 'wrong'"),
        (SheetItem('x', NONE, 1.0, moment=(2.0, 3.0)), r'must lie in \[0, 1\], shares'),
        (SheetItem('x', NONE, 1.0, moment=(3.0, 2.0), duration=9.0), r'in \[0, 9\], seconds'),
    ],
)
def test_sheet_refuses_an_item(item, said):
    with pytest.raises(ValueError, match=said):
        retrieval_sheet('a text', [SheetItem('good', NONE, 2.0), item])


def test_sheet_refuses():
    good = SheetItem('good', NONE, 2.0)
    for query, items, said in (
        (' ', [good], 'empty text'),
        (NONE, [good], 'without frames'),
        ('a', [], '0 items, expected 1 to 20'),
        ('a', [good] * 21, '21 items'),
    ):
        with pytest.raises(ValueError, match=said):
            retrieval_sheet(query, items)


# -- doubts ------------------------------------------------------------------------------------


def points(axis):
    """(x, y) of each scatter by the first words of its label."""
    return {
        dots.get_label().split(' (')[0]: (dots.get_offsets(), to_hex(dots.get_facecolor()[0]))
        for dots in axis.collections
    }


def test_eta():
    eta = torch.tensor([[0.1, 0.2], [0.9, 0.8]])
    loss = torch.tensor([[1.0, 5.0], [7.0, 4.0]])
    known = torch.tensor([[True, False], [False, False]])
    truth = torch.tensor([[True, True], [False, False]])
    figure = eta_against_loss(eta, loss, known, truth)
    found = points(figure.axes[0])
    expected = {
        'annotated': ([[1.0, 0.1]], ANNOTATED),
        'true, not annotated': ([[5.0, 0.2]], TRUE),
        'true negatives': ([[7.0, 0.9], [4.0, 0.8]], OTHER),
    }
    assert found.keys() == expected.keys()
    for name, (places, colour) in expected.items():
        np.testing.assert_allclose(found[name][0], places)
        assert found[name][1] == colour.lower()
    assert 'AUC 1.000 by eta, 0.500 by loss' in figure.axes[0].get_title()
    unknown = points(eta_against_loss(eta, loss, known).axes[0])
    assert {name: len(dots) for name, (dots, _) in unknown.items()} == {
        'annotated': 1,
        'not annotated': 3,
    }


def test_many_pairs_are_drawn_by_the_seed():
    x = np.linspace(0, 1, 5000)
    figures = [eta_against_loss(x, 2 * x, x > 2, seed=seed) for seed in (0, 0, 1)]
    axes = [figure.axes[0] for figure in figures]
    assert axes[0].collections[0].get_label() == 'not annotated (3,000 of 5,000)'
    dots = [np.asarray(axis.collections[0].get_offsets()) for axis in axes]
    np.testing.assert_allclose(dots[0][:, 0], 2 * dots[0][:, 1])
    assert (dots[0] == dots[1]).all() and (dots[0] != dots[2]).any()


def test_eta_refuses():
    x = np.ones(3)
    for arguments, said in (
        ((x, x[:2], x > 0), r'loss of shape \[2\], expected \[3\]'),
        ((x, x, x[:2] > 0), 'positives of shape'),
        ((x, x, x > 0, x[:1] > 0), 'truth of shape'),
        ((x[:0], x[:0], x[:0]), 'nothing to draw'),
        ((x, x * np.inf, x > 0), 'loss is inf at'),
    ):
        with pytest.raises(ValueError, match=said):
            eta_against_loss(*arguments)


def test_sigma():
    fits = torch.tensor([1, 1, 2, 4, 40])
    sigma = torch.tensor([0.1, 0.3, 0.2, 0.5, 0.6])
    figure = sigma_against_generality(sigma, fits, measured_by='videos')
    axis = figure.axes[0]
    drawn = np.stack([fits.numpy(), sigma.numpy()], 1)
    np.testing.assert_allclose(axis.collections[0].get_offsets(), drawn)
    medians = np.stack([axis.lines[0].get_xdata(), axis.lines[0].get_ydata()], 1)
    np.testing.assert_allclose(medians, [[1, 0.2], [2, 0.2], [4, 0.5], [40, 0.6]])
    # Ranks 1.5 1.5 3 4 5 and 1 3 2 4 5: 8 / sqrt(9.5 x 10).
    assert 'rank correlation +0.82 (5 texts)' in axis.get_title()
    assert axis.get_xscale() == 'log' and axis.get_xlabel() == 'videos'
    near = sigma_against_generality(sigma, [10, 11, 12, 13, 14], measured_by='x').axes[0]
    assert near.get_xscale() == 'linear'  # a part of a decade has no ticks of its own
    for x, said in (([0, 1, 1, 1, 1], 'of text 0 is 0, expected above 0'), ([1, 2], 'generality')):
        with pytest.raises(ValueError, match=said):
            sigma_against_generality(sigma, x, measured_by='videos')


# -- hubs and moments --------------------------------------------------------------------------


def test_hubs(scores):
    raw = torch.from_numpy(scores)
    skewed = raw + 3 * (torch.arange(V) == 7)
    figure = hubs(skewed, {'mended': raw, 'in pairs': (skewed, raw)}, k=5)
    for place, axis in enumerate(figure.axes):
        dim = 1 - place
        steps = {patch.get_label().split(':')[0]: patch for patch in axis.patches}
        shown = dict(raw=skewed, mended=raw)
        shown['in pairs'] = (skewed, raw)[place]
        for name, matrix in shown.items():
            counts = k_occurrence(matrix, k=5, dim=dim)
            values, edges, _ = steps[name].get_data()
            assert sum(values) == pytest.approx(100)
            for value, low, high in zip(values, edges, edges[1:]):
                inside = ((counts >= low) & (counts < high)).double().mean()
                assert value == pytest.approx(100 * float(inside))
            said = f'skewness {float(skewness(counts)):.2f}, most {int(counts.max())}, '
            assert said in steps[name].get_label()
    assert figure.axes[0].get_xlabel().startswith('N_5: how many texts')
    assert hubs(scores[:3, :4]).axes[1].get_xlabel().startswith('N_2')  # all but one of three


def test_hubs_refuse(scores):
    for before, options, said in (
        (scores[:1], {}, 'a gallery of one item has no hubs'),
        (scores, dict(k=0), 'k must be at least 1'),
        (scores, dict(after={'a': scores.T}), "after 'a' of shape"),
        (scores, dict(after={'a': (scores,)}), "after 'a': 1 matrices"),
        (scores, dict(after=dict.fromkeys('abcde', scores)), '5 transforms, at most 4'),
        (np.full((3, 3), np.inf), {}, 'before is inf'),
    ):
        with pytest.raises(ValueError, match=said):
            hubs(before, **options)


def test_moments():
    curve = torch.tensor([0.1, 0.9, 0.3, 0.2])
    figure = moment_curve(
        curve, matched=(0.25, 0.5), annotated=(0.2, 0.8), duration=20.0, text='it falls', video='v'
    )
    axis = figure.axes[0]
    line, *spans = axis.patches
    values, edges, _ = line.get_data()
    np.testing.assert_allclose(values, curve)
    assert edges.tolist() == [0, 5, 10, 15, 20]
    found = {span.get_label(): (span.get_x(), span.get_x() + span.get_width()) for span in spans}
    assert found == {'annotated moment': (4, 16), 'matched moment': (5, 10)}
    assert axis.get_xlabel() == 'seconds of the video' and '"it falls"' in axis.get_title()
    shares = moment_curve([1.0]).axes[0]
    assert shares.get_xlim() == (0, 1) and shares.get_xlabel() == 'share of the video'
    for options, said in (
        (dict(curve=[]), 'nothing to draw'),
        (dict(curve=[1.0, np.nan]), r'curve is nan at \[1\]'),
        (dict(curve=[1.0], matched=(0.5, 2.0)), r'matched moment \(0.5, 2.0\) must lie within'),
        (dict(curve=[1.0], duration=0.0), 'duration must be positive'),
    ):
        with pytest.raises(ValueError, match=said):
            moment_curve(**options)


# -- the way out -------------------------------------------------------------------------------


class Seen:
    """A visualizer, or a backend of one, that keeps what it is shown."""

    def __init__(self, *backends):
        self._vis_backends = {str(i): backend for i, backend in enumerate(backends)}
        self.images = []

    def add_image(self, name, image, step):
        self.images.append((name, image.shape, step))


def test_show():
    figure = moment_curve([1.0, 2.0])
    plain = Seen(object())
    show(plain, 'val_moment_0', figure, 3)
    assert plain.images == [('val_moment_0', (390, 900, 3), 3)]
    mlflow = Seen(type('MLflowVisBackend', (), {})())  # takes names for files', and knows no steps
    show(mlflow, 'val_moment_0', figure, 3)
    assert mlflow.images == [('val_moment_0_3.png', (390, 900, 3), 3)]


def test_words():
    assert words('a\nb\t\x00 c', 9) == 'a b c'
    assert words('a long text', 6) == 'a lon…' and words('exact', 5) == 'exact'
    assert words('$1 and $2', 20) == '$1 and $2'
    assert wrapped('one two three four', 9, 2) == 'one two\nthree…'
    assert wrapped('一' * 30, 10, 2).count('\n') == 1
    assert pixels(moment_curve([1.0], text='一个人 $ {x}_^')).shape == (390, 900, 3)


# -- calibration -------------------------------------------------------------------------------


def test_reliability_curve():
    figure = reliability_curve([0.1, 0.1, 0.9, 0.9], [False, True, True, True], bins=2)
    left, right = figure.axes
    assert left.lines[1].get_xydata().tolist() == [[0.1, 0.5], [0.9, 1.0]]
    assert [bar.get_height() for bar in right.patches] == [2, 2]
    assert 'calibration error 0.250' in left.get_title(loc='left') + left.get_title()
    with pytest.raises(ValueError, match='lie in'):
        reliability_curve([1.1], [True])
    with pytest.raises(ValueError, match='matches'):
        reliability_curve([0.1, 0.2], [True])
