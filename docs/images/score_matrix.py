"""Draws a text x video score matrix, its slots, and the components that fill them.

    python docs/images/score_matrix.py

writes ``score_matrix.png`` beside itself.  Lengths are pixels of a picture 800 wide; the file has
two for each, so that it is sharp on fine screens.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.patheffects import withStroke

from mmvtr.visualization.canvas import BLUE, GREEN, ORANGE, save

WIDTH, HEIGHT = 800, 470
INK, GREY, LINE, PAPER = '#222222', '#6B6B6B', '#C9CCD1', '#FBFBF9'
YELLOW, PURPLE = '#F0C808', '#A4508B'

VIDEOS = ('stage', 'home', 'snow', 'sea', 'cake')
TEXTS = (
    'a man is singing',
    'he sings on a stage',
    'he sings at home',
    'a dog is running',
    'a dog in the sea',
    'she cuts a cake',
)
#: (text, video) as the annotation has them: video 0 has two captions.
POSITIVES = {(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (5, 4)}
#: Weights below 1: of negatives that may well be true.
WEIGHTS = {(0, 1): 0.1, (1, 1): 0.7, (2, 0): 0.6}
AMBIGUOUS = {(3, 3)}
#: A positive whose margin is drawn.
MARGIN = (5, 4)

LEFT, TOP, CELL, ROW = 150, 104, 46, 40  # of the matrix: corner, width and height of an entry


class Slot(NamedTuple):
    """One line of the legend."""

    name: str
    what: str
    who: str


SLOTS = (
    Slot('positives', 'which entries count as a match', 'the annotation, by ids'),
    Slot('weights', 'how hard a negative is pushed', 'DVTR, RAN, PCME, relative scores'),
    Slot('ambiguous', 'neither match nor negative', 'ARL'),
    Slot('margins', 'how far apart a pair has to be', 'CMGSD; else one number for all'),
    Slot('biases', 'a number for each text, each video', 'NCL in training, Sinkhorn at test time'),
    Slot('environments', 'several matrices, summed', 'the length split (causal), ensembles'),
)


def main() -> None:
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=200, facecolor=PAPER)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))
    axes.axis('off')
    draw_card(axes)
    draw_matrix(axes)
    draw_margin(axes)
    draw_biases(axes)
    draw_slots(axes)
    draw_functions(axes)
    path = Path(__file__).with_suffix('.png')
    save(figure, path, colours=256)
    print(path)


def write(axes: Axes, x: float, y: float, text: str, size: float = 11, **kwargs) -> None:
    """Text of ``size`` pixels; centred at its height unless told otherwise."""
    kwargs = {'color': INK, 'va': 'center', **kwargs}
    axes.text(x, y, text, fontsize=size * 0.72, **kwargs)


def box(axes: Axes, x: float, y: float, w: float, h: float, *, round: float = 4, **kw) -> None:
    """A rectangle with rounded corners, from its upper left one."""
    style = f'round,pad=0,rounding_size={round}'
    axes.add_patch(FancyBboxPatch((x, y), w, h, boxstyle=style, **{'lw': 0.8, **kw}))


def centre(t: int, v: int) -> tuple[float, float]:
    return LEFT + (v + 0.5) * CELL, TOP + (t + 0.5) * ROW


def draw_card(axes: Axes) -> None:
    """The sheet of the matrix, and behind it those of other environments."""
    for shift in (16, 8, 0):
        box(axes, 14 + shift, 36 - shift, 428, 366, round=8, fc='white', ec=LINE)
    write(axes, 28, 78, 'texts × videos', 13, weight='bold')
    write(axes, 28, 94, 's[t, v], higher is better', 9.5, color=GREY)


def draw_matrix(axes: Axes) -> None:
    for v, name in enumerate(VIDEOS):
        x = LEFT + v * CELL
        box(axes, x + 4, TOP - 46, CELL - 8, 36, round=3, fc='#3A3F47', ec='none')
        for i in range(5):
            for y in (TOP - 43, TOP - 17):
                axes.add_patch(Rectangle((x + 8 + 6.4 * i, y), 3.6, 3.6, fc='white', lw=0))
        write(axes, x + CELL / 2, TOP - 28, name, 9.5, color='white', ha='center')
    for t, text in enumerate(TEXTS):
        write(axes, LEFT - 8, centre(t, 0)[1], text, 10.5, ha='right')
        for v in range(len(VIDEOS)):
            draw_entry(axes, *centre(t, v), kind(t, v), WEIGHTS.get((t, v), 1.0))


def kind(t: int, v: int) -> str:
    if (t, v) in POSITIVES:
        return 'positives'
    return 'ambiguous' if (t, v) in AMBIGUOUS else 'weights'


def draw_entry(axes: Axes, x: float, y: float, slot: str, weight: float) -> None:
    """An entry around its centre; a negative is the paler, the less it weighs."""
    looks = {
        'positives': (GREEN, '✓', 'white', 'bold'),
        'weights': (BLUE, f'{weight:g}'.lstrip('0'), INK, 'normal'),
        'ambiguous': (YELLOW, '?', INK, 'bold'),
    }
    colour, sign, ink, face = looks[slot]
    alpha = 0.32 * weight if slot == 'weights' else 1
    corner, size = (x - CELL / 2 + 2, y - ROW / 2 + 2), (CELL - 4, ROW - 4)
    box(axes, *corner, *size, fc='white', ec=LINE)
    box(axes, *corner, *size, fc=colour, ec='none', alpha=alpha)
    plain = slot == 'weights' and weight == 1
    write(
        axes,
        x,
        y,
        sign,
        10 if plain else 13,
        color=GREY if plain else ink,
        ha='center',
        weight=face,
    )


def draw_margin(axes: Axes) -> None:
    """Between a positive and the negative on its left."""
    x, y = centre(*MARGIN)
    draw_sign_of_margin(axes, x - CELL / 2, y + 12, 21)


def draw_sign_of_margin(axes: Axes, x: float, y: float, half: float) -> None:
    arrow(axes, (x - half, y), (x + half, y), ORANGE, style='<|-|>')
    box(axes, x - 8, y - 8, 16, 15, fc='white', ec=ORANGE)
    write(axes, x, y - 1, 'm', 11, color=ORANGE, weight='bold', ha='center')


def arrow(axes: Axes, start: tuple, end: tuple, colour: str, *, style: str = '-|>') -> None:
    look = dict(arrowstyle=style, color=colour, lw=1.3, mutation_scale=8)
    halo = [withStroke(linewidth=3.5, foreground='white')]
    axes.add_patch(FancyArrowPatch(start, end, path_effects=halo, **look))


def draw_biases(axes: Axes) -> None:
    """One beside each text, one below each video."""
    for t in range(len(TEXTS)):
        draw_bias(axes, centre(t, len(VIDEOS))[0] + 4, centre(t, 0)[1], f'$a_{t + 1}$')
    for v in range(len(VIDEOS)):
        draw_bias(axes, centre(0, v)[0], centre(len(TEXTS), 0)[1] + 2, f'$b_{v + 1}$')


def draw_bias(axes: Axes, x: float, y: float, sign: str) -> None:
    box(axes, x - 16, y - 11, 32, 22, round=10, fc='#F6EAF2', ec=PURPLE)
    write(axes, x, y, f'+{sign}', 11, color=PURPLE, ha='center')


def draw_slots(axes: Axes) -> None:
    """The legend: sign, name, what the slot holds, what fills it."""
    write(axes, 484, 28, 'slots', 13, weight='bold')
    write(axes, 524, 28.5, 'and what fills them', 11, color=GREY)
    for i, slot in enumerate(SLOTS):
        y = 76 + 60 * i
        if slot.name in ('positives', 'weights', 'ambiguous'):
            draw_entry(axes, 506, y, slot.name, 0.6)
        elif slot.name == 'margins':
            draw_sign_of_margin(axes, 506, y, 22)
        elif slot.name == 'biases':
            draw_bias(axes, 506, y, '$a$')
        else:
            for shift in (8, 4, 0):
                box(axes, 486 + shift, y - 10 - shift, 30, 24, round=3, fc='white', ec=GREY)
        write(axes, 542, y - 15, slot.name, 12.5, weight='bold')
        write(axes, 542, y + 1, slot.what, 11)
        write(axes, 542, y + 17, slot.who, 11, color=BLUE)


def draw_functions(axes: Axes) -> None:
    y = 436
    write(axes, 28, y, 'three functions read the slots', 11, color=GREY)
    for x, name in ((206, 'contrastive'), (300, 'ranking'), (378, 'pairwise')):
        w = 84 if name == 'contrastive' else 68
        box(axes, x, y - 12, w, 24, round=6, fc='white', ec=INK)
        write(axes, x + w / 2, y, name, 11, family='DejaVu Sans Mono', ha='center')
    arrow(axes, (450, y), (486, y), INK)
    write(axes, 496, y, 'every loss of a score matrix', 11)


if __name__ == '__main__':
    main()
