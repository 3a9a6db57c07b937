"""Words of a picture are drawn as they are written, in fonts that have their letters."""

import warnings

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager

from mmvtr.visualization import SheetItem, pixels, retrieval_sheet, save, score_matrix
from mmvtr.visualization import picture as module
from mmvtr.visualization.picture import Picture

NONE = np.zeros((0, 1, 1, 3), np.uint8)


def make_font(path, name, letters):
    """A font of black squares for some letters."""
    glyphs = ['.notdef', *(f'g{n}' for n in range(len(letters)))]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(glyphs)
    builder.setupCharacterMap({ord(letter): f'g{n}' for n, letter in enumerate(letters)})
    pen = TTGlyphPen(None)
    pen.moveTo((100, 0))
    for place in ((100, 700), (900, 700), (900, 0)):
        pen.lineTo(place)
    pen.closePath()
    square = pen.glyph()
    builder.setupGlyf({glyph: square for glyph in glyphs})
    builder.setupHorizontalMetrics({glyph: (1000, 0) for glyph in glyphs})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable(dict(familyName=name, styleName='Regular'))
    builder.setupOS2(sTypoAscender=800, usWeightClass=400)
    builder.setupPost()
    builder.save(path)
    return str(path)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """The fonts of a machine: matplotlib's own, and what is installed here, by name."""
    manager = font_manager.fontManager
    own = [font for font in manager.ttflist if 'mpl-data' in str(font.fname)]
    monkeypatch.setattr(manager, 'ttflist', own)
    installed = []
    monkeypatch.setattr(font_manager, 'findSystemFonts', lambda: installed)
    caches = (module._fonts, module._has, module._warn)

    def install(name, letters):
        installed.append(make_font(tmp_path / f'{name}.ttf', name, letters))

    for one in caches:
        one.cache_clear()
    yield install
    for one in caches:
        one.cache_clear()


@pytest.fixture
def warned(monkeypatch):
    said = []
    monkeypatch.setattr(module, 'print_log', lambda text, *_: said.append(text))
    return said


def sheet(*captions):
    return retrieval_sheet(captions[0], [SheetItem(text, NONE, 0.5) for text in captions[1:]])


def families(figure):
    return [
        figure._suptitle.get_fontfamily(),
        *(axis.texts[-1].get_fontfamily() for axis in figure.axes[::2]),
    ]


@pytest.mark.parametrize('letters', ['犬猫', 'नमस', '🐶', '한국', 'กข'])
def test_a_font_of_the_machine_is_taken(machine, warned, letters):
    boxes = pixels(sheet(f'a {letters}', 'a dog'))
    assert len(warned) == 1
    machine('Last Resort Ours', letters)
    machine('Other', 'xyz')
    machine('Fitting', letters)
    module._fonts.cache_clear()
    figure = sheet(f'a {letters}', 'a dog')
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        drawn = pixels(figure)
    assert families(figure)[0] == ['sans-serif', 'Fitting'] and len(warned) == 1
    assert families(figure)[1] == ['sans-serif'], 'a text that needs none has the usual font'
    assert (drawn != boxes).any()
    assert (drawn.min(-1) < 60).sum() > (boxes.min(-1) < 60).sum(), 'squares, not boxes'


def test_several_fonts_share_a_text(machine, warned):
    machine('One', '犬猫')
    machine('Two', '猫鳥🐶')
    figure = sheet('犬 猫 鳥 🐶 dog', 'a dog')
    pixels(figure)
    assert families(figure)[0] == ['sans-serif', 'Two', 'One'] and not warned
    pixels(figure)
    assert families(figure)[0] == ['sans-serif', 'Two', 'One'], 'drawn again'


@pytest.mark.parametrize('letter', ['犬', '🐶', 'न', '\u0e01'])
def test_letters_that_no_font_has_are_counted_and_named_once(machine, warned, tmp_path, letter):
    machine('Damaged', 'x')
    (tmp_path / 'Damaged.ttf').write_bytes(b'no font')
    captions = f'one {letter}', f'two {letter}{letter}', 'three', letter
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        # matplotlib's own words, up to 3.10
        warnings.filterwarnings('ignore', 'Matplotlib currently does not support Devanagari')
        for _ in range(2):
            save(sheet(*captions), tmp_path / 'x.png')
    assert len(warned) == 1
    assert warned[0].startswith('3 texts of a picture have letters that no font of this machine')
    assert f'{letter} (U+{ord(letter):04X}); install fonts' in warned[0]


def test_names_of_rows_are_given_fonts_too(machine, warned):
    machine('Fitting', '犬')
    names = [f'a 犬 {n}' for n in range(5)]
    scores = np.random.default_rng(0).normal(size=(5, 5))
    figure = score_matrix(scores, np.eye(5, dtype=bool), text_names=names)
    pixels(figure)
    fonts = [label.get_fontfamily() for label in figure.axes[0].get_yticklabels()]
    assert fonts == [['sans-serif', 'Fitting']] * 5 and not warned


FORMULAS = [
    'a $5 dog for $6', '$x$', r'$\frac{1}$', '$$', r'a \$ and \\$', '$_$ ^', r'$\mathdefault{dog}$'
]  # fmt: skip


@pytest.mark.parametrize('caption', FORMULAS)
def test_dollars_are_no_formulas(caption):
    figure = Picture(figsize=(3, 1))
    written = figure.text(0.1, 0.5, caption)
    drawn = pixels(figure)
    other = Picture(figsize=(3, 1))
    other.text(0.1, 0.5, caption, parse_math=False)
    assert written.get_text() == caption
    np.testing.assert_array_equal(drawn, pixels(other))
    pixels(sheet(caption, caption, f'{caption} and {caption}'))


def test_numbers_of_an_axis_stay_formulas():
    figure = Picture(figsize=(3, 2))
    axis = figure.subplots()
    axis.loglog([1e-3, 1e5], [1, 1e7])
    axis.set_title('a $5 dog for $6')
    pixels(figure)
    labels = [label for label in axis.get_xticklabels() if label.get_text()]
    assert labels and all(label.get_parse_math() for label in labels)
    assert not axis.title.get_parse_math()
