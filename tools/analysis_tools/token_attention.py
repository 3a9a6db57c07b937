"""Which words, frames and extra tokens carry the score of a text and a video?

    python tools/analysis_tools/token_attention.py CONFIG CHECKPOINT --video a.mp4 b.mp4 \\
        --text "a man is singing" "some people are dancing" --out DIR

For models that match tokens (UATVR Eq. 7-8): DIR/<video>.png shows the frames as the model sees
them and, for each text, what every frame and every word adds to the score, darker for more, with
the word or frame that it takes (UATVR Fig. 4 and 5).  Extra tokens are +1, +2 ...  Prints what
carries each pair most.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple, Optional, Sequence

import numpy as np
import torch
from mmengine.config import Config, DictAction
from torch import nn

from mmvtr.apis import encode_texts, encode_videos, load_retriever
from mmvtr.engine.evaluation import to_device
from mmvtr.registry import TRANSFORMS
from mmvtr.structures import Levels
from mmvtr.utils import load_config

#: What a missing or damaged file, an unknown word or another model raises.
PROBLEMS = (ImportError, KeyError, OSError, RuntimeError, ValueError)
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


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('config', help='of a model with a TokenSimilarity')
    add('checkpoint', help='weights of the whole model')
    add('--video', nargs='+', required=True, metavar='FILE', help='one picture each')
    add('--text', nargs='+', required=True, help='compared with each video')
    add('--out', type=Path, required=True, metavar='DIR', help='for the pictures, made if need be')
    add(
        '--cfg-options',
        nargs='+',
        action=DictAction,
        default={},
        metavar='KEY=VALUE',
        help='config changes',
    )
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    # Items are encoded one by one, so that nothing is padded: workers would start for each.
    cfg = load_config(args.config, {**args.cfg_options, 'test_dataloader.num_workers': 0})
    try:
        model, cfg = load_retriever(cfg, args.checkpoint)
        refuse_without_matches(model)
        texts = [read_text(model, cfg, text) for text in args.text]
        args.out.mkdir(parents=True, exist_ok=True)
        for path in args.video:
            images = read_images(cfg, path)
            video = read_video(model, cfg, path, len(images))
            pairs = [compare(model, *both, video) for both in zip(args.text, texts)]
            picture = args.out / f'{Path(path).stem}.png'
            draw(picture, path, images, pairs)
            print('\n'.join([f'{path}: {picture}', *map(describe, pairs)]) + '\n')
    except PROBLEMS as error:
        reason = error.args[0] if isinstance(error, KeyError) else error
        raise SystemExit(f'error: {reason}') from error


def refuse_without_matches(model: nn.Module) -> None:
    """Raise ValueError where scores are not made of words and frames."""
    similarity = getattr(model, 'similarity', None)
    if not hasattr(similarity, 'matches'):
        raise ValueError(
            f'the scores of {type(similarity).__name__} are not made of words and frames: the '
            'config needs a TokenSimilarity, as UATVR has'
        )


def read_text(model: nn.Module, cfg: Config, text: str) -> Item:
    """Encode a text and name its tokens."""
    steps = [TRANSFORMS.build(step) for step in cfg.test_dataloader.dataset.text_pipeline]
    named = [step for step in steps if hasattr(step, 'pieces')]
    if not named:
        raise ValueError(f'{cfg.filename} reads texts that are no words: it needs a tokenizer')
    results: dict[str, Any] = dict(text=text, text_id=text)
    for step in steps:
        results = step(results)
    levels = encode_texts(model, cfg, [text]).levels
    own = named[-1].pieces(results['token_ids'].tolist())
    return name_tokens(model, levels, own, 'word_extra')


def read_images(cfg: Config, path: str) -> list[np.ndarray]:
    """F frames as the model sees them, uint8 [H, W, 3]."""
    results: dict[str, Any] = dict(video_id=Path(path).stem, path=path)
    for step in cfg.test_dataloader.dataset.video_pipeline:
        step = TRANSFORMS.build(step)
        if hasattr(step, 'check'):
            step.check([results])
        results = step(results)
    if 'imgs' not in results:
        raise ValueError(f'{cfg.filename} reads stored features: pictures need LoadVideo')
    return results['imgs']


def read_video(model: nn.Module, cfg: Config, path: str, frames: int) -> Item:
    """Encode a video and name its tokens."""
    levels = encode_videos(model, cfg, [path]).levels
    return name_tokens(model, levels, [str(i + 1) for i in range(frames)], 'frame_extra')


def name_tokens(model: nn.Module, levels: Levels, own: Sequence[str], extra: str) -> Item:
    """Names of all tokens: extra tokens are the last ones."""
    length = levels[model.similarity.level].tokens.shape[1]
    count = getattr(getattr(model.encoder, extra, None), 'count', 0)
    padding = [''] * (length - count - len(own))
    return Item(levels, [*own, *padding, *(f'+{i + 1}' for i in range(count))])


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


def draw(out: Path, title: str, images: Sequence[np.ndarray], pairs: Sequence[Pair]) -> None:
    """The frames, and below them two strips for each text."""
    from matplotlib.figure import Figure  # slow, and not needed to refuse bad input

    sides = [(pair, side) for pair in pairs for side in (pair.frames, pair.words) if side]
    columns = max(len(images), *(len(pair.frames) for pair in pairs))
    width = max(8, columns)
    inches = [width / columns, *[0.65] * len(sides)]  # images are square, most often
    height = sum(inches) + 0.22 * (1 + len(pairs)) + 0.5
    figure = Figure(figsize=(width, height), layout='constrained')
    axes = figure.subplots(len(inches), 1, height_ratios=inches, squeeze=False).flatten()
    figure.suptitle(title)
    show_frames(axes[0], images, columns)
    said: Optional[str] = None
    for axis, (pair, side) in zip(axes[1:], sides):
        strip(axis, side, columns)
        if pair.text != said:
            axis.set_title(f'"{pair.text}"   score {pair.score:.3f}', loc='left', fontsize=10)
        said = pair.text
    figure.savefig(out, dpi=120)


def show_frames(axis: Any, images: Sequence[np.ndarray], columns: int) -> None:
    """F images side by side, each in a column."""
    for i, image in enumerate(images):
        axis.imshow(image, extent=(i + 0.02, i + 0.98, 0, 1), aspect='auto')
    axis.set(xlim=(0, columns), ylim=(0, 1))
    axis.axis('off')


def strip(axis: Any, side: Sequence[Token], columns: int) -> None:
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


if __name__ == '__main__':
    main()
