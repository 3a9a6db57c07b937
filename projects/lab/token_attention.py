"""Show which words, frames and extra tokens contribute to the score of a text and a video.

    python projects/lab/token_attention.py CONFIG CHECKPOINT --video a.mp4 b.mp4 \\
        --text "a man is singing" "some people are dancing" --out DIR

For models that match tokens (UATVR Eq. 7-8): DIR/<video>.png shows the frames as the model sees
them and, for each text, the contribution of every frame and word to the score, darker for larger
ones, with its matched word or frame (UATVR Fig. 4 and 5).  Extra tokens are +1, +2 ...  It prints
the largest contributions to each pair.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mmvtr.cli.start import tool

import numpy as np
from mmengine.config import Config
from torch import nn

from mmvtr.apis import encode_texts, encode_videos, load_retriever
from mmvtr.cli import Parser, check_files, output_folder, query
from mmvtr.registry import TRANSFORMS
from mmvtr.utils import load_config
from mmvtr.visualization import save
from paper_figures.attention import (
    Item,
    compare,
    describe,
    name_tokens,
    pieces_of,
    refuse_without_matches,
)
from paper_figures.token_strips import token_picture


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='of a model with a TokenSimilarity')
    add('checkpoint', help='weights of the whole model')
    add(
        '--video',
        nargs='+',
        required=True,
        metavar='FILE',
        help='one picture each',
    )
    add('--text', nargs='+', type=query, required=True, help='compared with each video')
    add(
        '--out',
        type=output_folder,
        required=True,
        metavar='DIR',
        help='for the pictures, made if need be',
    )
    parser.add_cfg_options()
    return parser.parse_one_checkpoint()


@tool
def main() -> None:
    args = parse_args()
    check_files(args.video)
    # Items are encoded one by one to avoid padding, and workers would start for each item.
    cfg = load_config(args.config, {**args.cfg_options, 'test_dataloader.num_workers': 0})
    model, cfg = load_retriever(cfg, args.checkpoint)
    refuse_without_matches(model)
    texts = [read_text(model, cfg, text) for text in args.text]
    args.out.mkdir(parents=True, exist_ok=True)
    for path in args.video:
        images = read_images(cfg, path)
        video = read_video(model, cfg, path, len(images))
        pairs = [compare(model, *both, video) for both in zip(args.text, texts)]
        picture = args.out / f'{Path(path).stem}.png'
        save(token_picture(path, images, pairs), picture)
        print('\n'.join([f'{path}: {picture}', *map(describe, pairs)]) + '\n')


def read_text(model: nn.Module, cfg: Config, text: str) -> Item:
    """Encode a text and name its tokens."""
    steps = [TRANSFORMS.build(step) for step in cfg.test_dataloader.dataset.text_pipeline]
    own = pieces_of(steps, dict(text=text, text_id=text))
    return name_tokens(model, encode_texts(model, cfg, [text]).levels, own, 'word_extra')


def read_images(cfg: Config, path: str) -> list[np.ndarray]:
    """Return F frames as the model sees them, uint8 [H, W, 3]."""
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


if __name__ == '__main__':
    main()
