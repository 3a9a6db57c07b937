"""Size of the PRVR models, and their time a query on this machine (ARL Tab. 3-4).

  python projects/lab/evidence/speed/prvr_speed.py [--device cuda] [--galleries 1000 1500 ...]

A query is one text: its words are encoded and scored against a gallery that is encoded already.
FLOPs (two a multiply-add) are of one video, one text and their score.  Vectors of the gallery are
random, which changes no time.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any, Callable, NamedTuple

import torch
from mmengine.config import Config
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels
from mmvtr.utils import register_all_modules

CONFIGS = Path(__file__).parents[4] / 'configs/_base_'
#: Name -> config, and options of its similarity.
MODELS_SHOWN = {
    'MS-SL': ('mssl_i3d.py', {}),
    'GMMFormer': ('gmmformer_i3d.py', {}),
    'ARL': ('arl_i3d.py', {}),
    'ARL, shared frame': ('arl_i3d.py', dict(shared_frame=True)),
}
#: Parameters in millions, GFLOPs, and ms a query on an RTX 3090 by gallery size, as printed.
PAPER = {
    'MS-SL': (4.85, 1.29, {1000: 0.366, 1500: 0.606, 2000: 0.759, 2500: 0.893}),
    'GMMFormer': (12.85, 1.95, {1000: 0.264, 1500: 0.267, 2000: 0.270, 2500: 0.293}),
    'ARL': (5.34, 1.23, {1000: 0.294, 1500: 0.391, 2000: 0.427, 2500: 0.612}),
}


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--galleries', type=int, nargs='+', default=(1000, 1500, 2000, 2500))
    parser.add_argument('--frames', type=int, default=128)
    parser.add_argument('--words', type=int, default=30)
    parser.add_argument('--video-dim', type=int, default=3072, help="width of TVR's features")
    parser.add_argument('--text-dim', type=int, default=768)
    parser.add_argument('--device', default='cuda' if torch.cuda.is_available() else 'cpu')
    parser.add_argument('--repeats', type=int, default=20, help='queries timed; the median counts')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    register_all_modules()
    print(f'torch {torch.__version__}, {device_name(args.device)}; ', end='')
    print(f'{args.frames} frames x {args.video_dim}, {args.words} words x {args.text_dim}\n')
    sizes = ' | '.join(f'ms at {size}' for size in args.galleries)
    print(f'| model | M parameters | GFLOPs | text ms | {sizes} |')
    print('|' + ' --- |' * (4 + len(args.galleries)))
    for name, (config, options) in MODELS_SHOWN.items():
        print(row(name, *measure(config, options, args)), flush=True)
    for name, (parameters, flops, times) in PAPER.items():
        shown = [times.get(size) for size in args.galleries]
        print(row(f'{name}, as printed', parameters, flops, None, shown))


def row(name: str, parameters: float, flops: float, text: Any, times: list[Any]) -> str:
    """A row of the table."""
    ms = ['' if value is None else f'{value:.3g}' for value in (text, *times)]
    return f'| {name} | {parameters:.2f} | {flops:.2f} | {" | ".join(ms)} |'


class Model(NamedTuple):
    """The two halves of a retriever, in eval mode."""

    encoder: nn.Module
    similarity: nn.Module


def measure(
    config: str, options: dict[str, Any], args: argparse.Namespace
) -> tuple[float, float, float, list[float]]:
    """M parameters, GFLOPs, ms to encode a text, ms a query by gallery size."""
    torch.manual_seed(0)
    model = build(config, options, args)
    video = torch.randn(1, args.frames, args.video_dim, device=args.device)
    text = torch.randn(1, args.words, args.text_dim, device=args.device)
    frame_mask, text_mask = (x[..., 0].isfinite() for x in (video, text))
    with torch.no_grad():
        with FlopCounterMode(display=False) as counter:
            videos = model.encoder.encode_video(video, frame_mask)
            texts = model.encoder.encode_text(text, text_mask)
            model.similarity(texts, videos)
        largest = model.similarity.gallery(random_gallery(videos, max(args.galleries)))

        def query(size: int) -> float:
            part = first(largest, size)
            return milliseconds(
                lambda: model.similarity.search(model.encoder.encode_text(text, text_mask), part),
                args,
            )

        times = [query(size) for size in args.galleries]
        encoding = milliseconds(lambda: model.encoder.encode_text(text, text_mask), args)
    parameters = sum(p.numel() for part in model for p in part.parameters())
    return parameters / 1e6, counter.get_total_flops() / 1e9, encoding, times


def build(config: str, options: dict[str, Any], args: argparse.Namespace) -> Model:
    """Encoder and similarity of a config, for the feature widths asked for."""
    cfg = Config.fromfile(CONFIGS / config).model
    encoder = cfg.encoder.get('encoder', cfg.encoder)
    encoder.frames.in_dim, encoder.text.in_dim = args.video_dim, args.text_dim
    encoder.max_frames, encoder.max_words = args.frames, args.words
    parts = MODELS.build(cfg.encoder), MODELS.build({**cfg.similarity, **options})
    return Model(*(part.to(args.device).eval() for part in parts))


def random_gallery(one: Levels, size: int) -> Levels:
    """As many videos of the same shapes as that one."""

    def many(level: Embedding) -> Embedding:
        mean, tokens = (
            torch.randn(size, *x.shape[1:], device=x.device) for x in (level.mean, level.tokens)
        )
        return Embedding(mean, tokens, level.mask.expand(size, -1))

    return {name: many(level) for name, level in one.items()}


def first(gallery: Any, size: int) -> Any:
    """Its first videos: a tensor, a tuple or a dict of them."""
    if isinstance(gallery, dict):
        return {name: first(part, size) for name, part in gallery.items()}
    if isinstance(gallery, tuple):
        return type(gallery)(*(first(part, size) for part in gallery))
    return gallery[:size]


def milliseconds(function: Callable[[], Any], args: argparse.Namespace) -> float:
    """Median of some runs, after three that warm up."""
    times = []
    for _ in range(3 + args.repeats):
        synchronize(args.device)
        start = time.perf_counter()
        function()
        synchronize(args.device)
        times.append(1000 * (time.perf_counter() - start))
    return median(times[3:])


def synchronize(device: str) -> None:
    if device.startswith('cuda'):
        torch.cuda.synchronize(device)


def device_name(device: str) -> str:
    if device.startswith('cuda'):
        return torch.cuda.get_device_name(device)
    return f'CPU, {torch.get_num_threads()} threads'


if __name__ == '__main__':
    main()
