"""Figures whose texts are drawn literally, in fonts that have their letters.

matplotlib takes text between two dollars for a formula, and its own font has no Chinese, Devanagari
or emoji.  It draws each letter with the first font of a list that has it, so every text gets a list
of the fonts of this machine.
"""

from __future__ import annotations

import logging
import re
import warnings
from functools import cache
from typing import Any, Iterator

from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.text import Text
from mmengine.logging import print_log

#: Advice if no font has a letter.
REMEDY = 'install fonts that have them, such as fonts-noto-cjk, fonts-noto-core or fonts-symbola'

#: matplotlib's notation of numbers on an axis.
_NUMBER = re.compile(r'\$(?:\\times)?\\mathdefault\{[-−\d.^{}\\times]*\}\$')

#: Names of fonts with a box for every letter, and of colour fonts, which matplotlib cannot draw.
_UNFIT = ('last resort', 'color emoji', 'colour emoji', 'emojione')


class Picture(Figure):
    """A figure that warns once about texts with letters that no installed font has."""

    def draw(self, renderer: Any) -> None:
        """Check the fonts of all texts, then draw."""
        texts = [text for text in self.findobj(Text) if text.get_text()]
        for text in texts:
            text.set_parse_math(bool(_NUMBER.fullmatch(text.get_text())))
        lacking = [letters for text in texts if (letters := _give_fonts(text))]
        if lacking:
            _warn(len(lacking), ' '.join(sorted(set().union(*lacking))))
        with warnings.catch_warnings():  # the warning above is enough
            warnings.filterwarnings('ignore', message='Glyph .* missing from')
            super().draw(renderer)


def _give_fonts(text: Text) -> set[str]:
    """Add fallback fonts for letters that a text's font lacks; return letters that no font has."""
    letters = {letter for letter in text.get_text() if letter.isprintable()}
    if all(letter.isascii() for letter in letters):
        return set()
    own = font_manager.findfont(text.get_fontproperties())
    families, lacking = [], {x for x in letters if not _has(own, x)}
    while lacking:
        name, path = max(_fonts(), key=lambda font: sum(_has(font[1], x) for x in lacking))
        left = {x for x in lacking if not _has(path, x)}
        if left == lacking:
            break
        families.append(name)
        lacking = left
    if families:
        current = text.get_fontfamily()
        text.set_fontfamily([*current, *(name for name in families if name not in current)])
    return lacking


@cache
def _fonts() -> list[tuple[str, str]]:
    """Return name and file of the installed upright fonts, newly installed ones included."""
    manager = font_manager.fontManager
    files = {str(font.fname) for font in manager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in files:
            try:
                manager.addfont(path)
            except Exception:  # a damaged font can raise anything; skip it
                continue
    return [*_upright(manager.ttflist)]


def _upright(entries: list[Any]) -> Iterator[tuple[str, str]]:
    names = set()
    for font in sorted(entries, key=lambda font: (abs(_weight(font) - 400), font.name)):
        fit = font.style == 'normal' and not any(word in font.name.lower() for word in _UNFIT)
        if fit and font.name not in names:
            names.add(font.name)
            yield font.name, font.fname


def _weight(font: Any) -> int:
    return font_manager.weight_dict.get(font.weight, font.weight)


@cache
def _has(path: str, letter: str) -> bool:
    try:
        return font_manager.get_font(path).get_char_index(ord(letter)) != 0
    except Exception:  # a damaged font can raise anything
        return False


@cache
def _warn(count: int, letters: str) -> None:
    """Warn once per set of texts, since they are redrawn each epoch."""
    shown = letters.split(' ')
    some = ', '.join(f'{letter} (U+{ord(letter):04X})' for letter in shown[:5])
    print_log(
        f'{count} texts of a picture have letters that no font of this machine has, and boxes '
        f'stand for them: {some}{" ..." if len(shown) > 5 else ""}; {REMEDY}',
        'current',
        logging.WARNING,
    )
