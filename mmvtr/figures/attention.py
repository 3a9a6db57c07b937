"""Which words, frames and extra tokens carry a score, as records and pictures (UATVR Fig. 4, 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence

import numpy as np
import torch
from torch import nn

from mmvtr.engine.loop.evaluation import to_device
from mmvtr.structures import Levels
from mmvtr.visualization.canvas import GREEN, RED, words, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = 3  # of the words and of the frames that carry a pair, in what is printed


class Token(NamedTuple):
    """A word, a frame or an extra token of a pair.

    Attributes:
        name: a piece of the text, '1' for the first frame, '+1' for the first extra token.
        share: what it adds to the score.
        partner: the name of the token of the other side that it takes; '' where that is padding.
    """

    name: str
    share: float
    partner: str


class Pair(NamedTuple):
    """A text with a video; a side that the model does not match from is empty."""

    text: str
    score: float
    words: list[Token]
    frames: list[Token]


class Item(NamedTuple):
    """An encoded text or video, a batch of one, and the names of its tokens (padding: '')."""

    levels: Levels
    names: list[str]


def refuse_without_matches(model: nn.Module) -> None:
    """Raise ValueError where scores are not made of words and frames."""
    similarity = getattr(model, 'similarity', None)
    if not hasattr(similarity, 'matches'):
        raise ValueError(
            f'the scores of {type(similarity).__name__} are not made of words and frames: the '
            'config needs a TokenSimilarity, as UATVR has'
        )


def pieces_of(pipeline: Sequence[Any], text: dict[str, Any]) -> list[str]:
    """The pieces that a text pipeline makes of a text.

    Args:
        pipeline: built transforms.
        text: its record, or ``text`` and ``text_id`` alone.

    Raises:
        ValueError: texts of the pipeline are no words (stored features).
    """
    named = [step for step in pipeline if hasattr(step, 'pieces')]
    if not named:
        raise ValueError('the config reads texts that are no words: it needs a tokenizer')
    results: dict[str, Any] = dict(text)
    for step in pipeline:
        results = step(results)
    return named[-1].pieces(results['token_ids'].tolist())


def name_tokens(model: nn.Module, levels: Levels, own: Sequence[str], extra: str) -> Item:
    """Names of all tokens of an item: its own first, extra tokens are the last that are valid."""
    level = levels[model.similarity.level]
    count = getattr(getattr(model.encoder, extra, None), 'count', 0)
    names = [*own, *[''] * (level.tokens.shape[1] - len(own))]
    # What was encoded with longer items has padding before and behind its extra tokens.
    places = level.mask[0].nonzero().flatten().tolist()
    for number, place in enumerate(places[len(places) - count :], 1):
        names[place] = f'+{number}'
    return Item(levels, names)


@torch.no_grad()
def compare(model: nn.Module, text: str, words: Item, video: Item) -> Pair:
    """What carries the score of a text with a video."""
    device = model.data_preprocessor.device
    levels = [to_device(item.levels, device) for item in (words, video)]
    matches = model.similarity.matches(*levels)
    names = dict(words=words.names, frames=video.names)
    masks = [side[model.similarity.level].mask[0].tolist() for side in levels]
    sides = {}
    for (side, own), (other, _), mask in zip(names.items(), reversed(names.items()), masks):
        found = matches.get(side)
        sides[side] = [] if found is None else tokens(own, names[other], found, mask)
    score = sum(token.share for side in sides.values() for token in side)
    return Pair(text, score, **sides)


def tokens(own: Sequence[str], others: Sequence[str], found: Any, mask: Sequence[bool]) -> list:
    """The valid tokens of a side of the only pair there is."""
    shares, partners = (x[0, 0].tolist() for x in (found.share, found.partner))
    return [
        Token(name, share, others[partner] if partner >= 0 else '')
        for name, share, partner, valid in zip(own, shares, partners, mask)
        if valid
    ]


def describe(pair: Pair) -> str:
    """Two lines: the score, and what carries it most."""
    parts = []
    for side in (pair.words, pair.frames):
        best = sorted(side, key=lambda token: -token.share)[:SHOWN]
        parts += [', '.join(f'{t.name} <- {t.partner} {t.share:.4f}' for t in best)]
    return f'  {pair.score:.4f}  {pair.text}\n          ' + ';  '.join(filter(None, parts))


# -- pictures ----------------------------------------------------------------------------------


def token_picture(
    title: str,
    images: Sequence[np.ndarray],
    pairs: Sequence[Pair],
    *,
    right: Optional[bool] = None,
) -> 'Figure':
    """The frames, and below them two strips for each text.

    Args:
        title: of the picture.
        images: F frames, uint8 [H, W, 3]; none where there are none to show.
        pairs: texts with the one video.
        right: whether the video is right: the title is green or red; None: black.
    """
    from mmvtr.visualization.picture import Picture  # slow, and not needed to refuse bad input

    sides = [(pair, side) for pair in pairs for side in (pair.frames, pair.words) if side]
    columns = max(len(images), *(len(pair.frames) for pair in pairs), 1)
    width = max(8, columns)
    above = [width / columns] if len(images) else []  # images are square, most often
    inches = [*above, *[0.65] * len(sides)]
    height = sum(inches) + 0.22 * (1 + len(pairs)) + 0.5
    figure = Picture(figsize=(width, height), layout='constrained')
    axes = figure.subplots(len(inches), 1, height_ratios=inches, squeeze=False).flatten()
    colour = {None: 'black', True: GREEN, False: RED}[right]
    figure.suptitle(words(title, 12 * width), color=colour, fontsize=11)
    if len(images):
        show_frames(axes[0], images, columns)
    said: Optional[str] = None
    for axis, (pair, side) in zip(axes[len(above) :], sides):
        strip(axis, side, columns)
        if pair.text != said:
            text = wrapped(pair.text, 12 * width, 2)
            axis.set_title(f'"{text}"   score {pair.score:.3f}', loc='left', fontsize=10)
        said = pair.text
    return figure


def show_frames(axis: 'Axes', images: Sequence[np.ndarray], columns: int) -> None:
    """F images side by side, each in a column."""
    for i, image in enumerate(images):
        axis.imshow(image, extent=(i + 0.02, i + 0.98, 0, 1), aspect='auto')
    axis.set(xlim=(0, columns), ylim=(0, 1))
    axis.axis('off')


def strip(axis: 'Axes', side: Sequence[Token], columns: int) -> None:
    """A cell for each token: its name and what it takes; the darker, the more it adds."""
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
