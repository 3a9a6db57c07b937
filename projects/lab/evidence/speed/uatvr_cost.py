"""What UATVR's extra tokens, heads and objectives cost beside token-wise matching and the towers.

    OMP_NUM_THREADS=1 python projects/lab/evidence/speed/uatvr_cost.py [--batch 128] [--device cpu]

One training step on stored tower outputs, with and without them, and CLIP ViT-B/32 on a few frames,
extrapolated to the 12 frames of each video (its text tower is left out: the share would fall).  On
a CPU the time is that of the processor, which other programs do not disturb.
"""

from __future__ import annotations

import argparse
import time
from typing import Callable

import torch
from mmengine.config import Config
from torch import nn

from mmvtr.models.towers.open_clip import OpenCLIPFrames
from mmvtr.registry import MODELS
from mmvtr.utils import named_config, register_all_modules


class StoredWords(nn.Module):
    """A text tower that hands over what it is given."""

    dim = 512

    def forward(self, text: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """float [T, L, D], bool [T, L] -> the same words and the first one."""
        return text, text[:, 0]


def seconds(step: Callable[[], None], repeats: int, device: str) -> float:
    """The fastest of some runs, after one to warm up."""
    clock, times = time.perf_counter if device == 'cuda' else time.process_time, []
    for _ in range(repeats + 1):
        start = clock()
        step()
        if device == 'cuda':
            torch.cuda.synchronize()
        times.append(clock() - start)
    return min(times[1:])


def model_step(name: str, batch: int, device: str) -> Callable[[], None]:
    """A step of a config's model on stored tower outputs."""
    cfg = Config.fromfile(named_config(name)).model
    cfg.encoder.frames = dict(type='FeatureFrames', in_dim=512)
    cfg.encoder.text = StoredWords()
    model = MODELS.build(cfg).to(device)
    ids = torch.arange(batch, device=device)
    inputs = dict(
        video=torch.randn(batch, 12, 512, device=device),
        frame_mask=torch.ones(batch, 12, dtype=torch.bool, device=device),
        text=torch.randn(batch, 32, 512, device=device),
        text_mask=torch.ones(batch, 32, dtype=torch.bool, device=device),
    )
    names = [str(i) for i in range(batch)]
    samples = dict(video_idx=ids, text_idx=ids, text_videos=ids[:, None])
    samples.update(video_ids=names, text_ids=names)

    def step() -> None:
        losses = model(inputs, samples, mode='loss')
        sum(value for key, value in losses.items() if 'loss' in key).backward()

    return step


def tower_step(frames: int, device: str) -> Callable[[], None]:
    """Forward and backward of ViT-B/32 on some frames."""
    tower = OpenCLIPFrames('ViT-B-32-quickgelu').to(device)
    images = torch.randn(frames, 3, 224, 224, device=device)
    return lambda: tower(images).sum().backward()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--batch', type=int, default=128)
    parser.add_argument('--frames', type=int, default=16, help='frames that the tower is timed on')
    parser.add_argument('--repeats', type=int, default=3)
    parser.add_argument('--device', default='cpu')
    args = parser.parse_args()

    register_all_modules()
    tower = seconds(tower_step(args.frames, args.device), args.repeats, args.device)
    tower *= args.batch * 12 / args.frames
    times = {
        name: seconds(model_step(name, args.batch, args.device), args.repeats, args.device)
        for name in (
            'uatvr_vitb16_msrvtt_ti',
            'uatvr_vitb16_msrvtt',
            'uatvr_vitb16_msrvtt_official',
        )
    }
    base = times['uatvr_vitb16_msrvtt_ti']
    print(f'ViT-B/32 on {args.batch} x 12 frames, extrapolated: {tower:.1f} s')
    for name, value in times.items():
        extra = f'{100 * (value - base) / tower:.1f} % of the tower more' if value != base else ''
        print(f'{name}: {value:.2f} s  {extra}')


if __name__ == '__main__':
    main()
