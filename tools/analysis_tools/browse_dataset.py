"""Draw what a dataloader yields: frames and words of some items, after all transforms.

    python tools/analysis_tools/browse_dataset.py CONFIG --out sheet.png [--split train] [--epoch 3]

Each row is an item: its frames as the model gets them (before normalisation by mean and std), the
ids of its video and text, the caption, and the token ids.
"""

from __future__ import annotations

import argparse
from typing import Any

from mmvtr.cli.start import tool

import numpy as np
import torch
from mmengine.registry import init_default_scope
from torch import Tensor

from mmvtr.cli import Parser, count, output_file
from mmvtr.datasets import ItemKey
from mmvtr.registry import DATASETS
from mmvtr.utils import load_config
from mmvtr.visualization import canvas

#: Maximal number of frames of a row, and of token ids of a text.
FRAMES, TOKENS = 8, 16


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file')
    add('--out', type=output_file, required=True, metavar='FILE', help='the picture: png, pdf ...')
    add('--split', default='train', choices=('train', 'val', 'test'), help='default: train')
    add('--number', type=count, default=8, help='items, spread over the set (default: 8)')
    add('--epoch', type=int, default=0, help='epoch of the random transforms (default: 0)')
    parser.add_cfg_options()
    return parser.parse_args()


def strip(frames: Tensor) -> np.ndarray:
    """Return frames side by side, uint8 [H, F * W, 3]; for clips the first frame of each.

    Args:
        frames: uint8 [F, 3, H, W] or [F, L, 3, H, W].
    """
    frames = frames[:, 0] if frames.dim() == 5 else frames
    chosen = np.linspace(0, len(frames) - 1, min(FRAMES, len(frames))).round().astype(int)
    return torch.cat([*frames[chosen]], dim=2).permute(1, 2, 0).numpy()


def words(item: dict[str, Any]) -> str:
    """Return the caption of an item's row: ids, shape, texts and token ids."""
    shape = list(item['video']['frames'].shape)
    lines = [f'video {item["video"]["video_id"]}: {shape}']
    for text in item['texts']:
        tokens = text['tokens']
        ids = (
            ' '.join(map(str, tokens[:TOKENS].tolist())) + (' ...' if len(tokens) > TOKENS else '')
            if tokens.dim() == 1
            else str(list(tokens.shape))
        )
        lines.append(f'text {text["text_id"]}: {canvas.wrapped(text["caption"], 90, 2)}  [{ids}]')
    return '\n'.join(lines)


def sheet(items: list[dict[str, Any]]) -> canvas.Figure:
    """Return a figure with a row for each item of a dataset."""
    figure = canvas.new_figure(1.9 * len(items))
    for axis, item in zip(figure.subplots(len(items), 1, squeeze=False)[:, 0], items):
        axis.axis('off')
        if 'broken' in item:
            axis.set_title('broken: {}: {}'.format(*item['broken']), fontsize=8, loc='left')
            continue
        axis.set_title(words(item), fontsize=8, loc='left')
        if item['video']['frames'].dtype == torch.uint8:
            axis.imshow(strip(item['video']['frames']))
    return figure


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options)
    loader = cfg.get(f'{args.split}_dataloader')
    if loader is None:
        raise SystemExit(f'error: {args.config} has no {args.split}_dataloader')
    init_default_scope(cfg.get('default_scope', 'mmvtr'))
    dataset = DATASETS.build(loader.dataset)
    seed = cfg.get('randomness', {}).get('seed') or 0
    chosen = np.linspace(0, len(dataset) - 1, min(args.number, len(dataset))).round().astype(int)
    items = [dataset[ItemKey(seed, args.epoch, int(index))] for index in chosen]
    canvas.save(sheet(items), args.out)
    print('\n'.join(words(item) for item in items if 'broken' not in item))
    print(f'{len(items)} of {len(dataset):,} items of {args.split}: {args.out}')


if __name__ == '__main__':
    main()
