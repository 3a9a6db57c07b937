"""Contributions of words, frames and extra tokens to a score (UATVR Fig. 4 and 5)."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

import numpy as np

from mmvtr.visualization import canvas
from mmvtr.visualization.sheet import frames_in_a_row


class Token(NamedTuple):
    """A word, a frame or an extra token of a pair.

    Attributes:
        name: a token of the text, '1' for the first frame, '+1' for the first extra token.
        share: its contribution to the score.
        partner: name of the matched token of the other side; '' if that is padding.
    """

    name: str
    share: float
    partner: str


class Pair(NamedTuple):
    """A text with a video; a side whose tokens the model does not match is empty."""

    text: str
    score: float
    words: list[Token]
    frames: list[Token]


def token_picture(
    title: str, images: Sequence[np.ndarray], pairs: Sequence[Pair], *, right: Optional[bool] = None
) -> 'canvas.Figure':
    """Draw the frames, and below them two strips for each text.

    Args:
        title: title of the figure.
        images: F frames, uint8 [H, W, 3]; may be empty.
        pairs: texts with the same video.
        right: whether the video is correct: the title is green or red; None: black.
    """
    sides = [(pair, side) for pair in pairs for side in (pair.frames, pair.words) if side]
    columns = max(len(images), *(len(pair.frames) for pair in pairs), 1)
    width = max(8, columns)
    above = [width / columns] if len(images) else []  # images are mostly square
    inches = [*above, *[0.65] * len(sides)]
    height = sum(inches) + 0.22 * (1 + len(pairs)) + 0.5
    figure = canvas.new_figure(height, width=width, dpi=120)  # small letters
    colour = {None: 'black', True: canvas.GREEN, False: canvas.RED}[right]
    figure.suptitle(canvas.words(title, 12 * width), color=colour, fontsize=11)
    axes = figure.subplots(len(inches), 1, height_ratios=inches, squeeze=False).flatten()
    if len(images):
        frames_in_a_row(axes[0], images)
        axes[0].set(xlim=(0, columns), ylim=(0, 1))
        axes[0].axis('off')
    previous: Optional[str] = None
    for axis, (pair, side) in zip(axes[len(above) :], sides):
        strip(axis, side, columns)
        if pair.text != previous:
            text = canvas.wrapped(pair.text, 12 * width, 2)
            axis.set_title(f'"{text}"   score {pair.score:.3f}', loc='left', fontsize=10)
        previous = pair.text
    return figure


def strip(axis: 'canvas.Axes', side: Sequence[Token], columns: int) -> None:
    """Draw a cell for each token with its name and share, darker for larger shares."""
    from matplotlib.patches import Rectangle

    shares = np.array([token.share for token in side])
    spread = np.ptp(shares)
    dark = (shares - shares.min()) / spread if spread > 0 else np.zeros_like(shares)
    width = columns / len(side) if len(side) > columns else 1.0
    for i, (token, shade) in enumerate(zip(side, dark)):
        color = (1 - 0.85 * shade, 1 - 0.55 * shade, 1.0)
        axis.add_patch(Rectangle((i * width, 0), width, 1, facecolor=color, edgecolor='0.6'))
        taken = f'<- {token.partner}' if token.partner else ''
        lines = [token.name, taken, f'{token.share:.4f}']
        ink = 'white' if shade > 0.75 else 'black'
        middle = (i + 0.5) * width
        axis.text(middle, 0.5, '\n'.join(lines), ha='center', va='center', fontsize=8, color=ink)
    axis.set(xlim=(0, columns), ylim=(0, 1))
    axis.axis('off')
