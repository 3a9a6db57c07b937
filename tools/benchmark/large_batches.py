"""What `micro_batch` and `strip` cost and save, beside the plain step: time and peak memory.

    python tools/benchmark/large_batches.py
    python tools/benchmark/large_batches.py --only strip --batch 32768 --height 128 --no-matrix

Peak memory is what torch allocates at most during a step, above what it held before: model, batch
and gradients of weights.  Times are CPU seconds, medians of alternating runs; only their ratio says
something.  Set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Callable, Optional

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from mmvtr.models.annotation import Annotation
from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.supervisions.dvtr import DVTRSupervision
from mmvtr.models.sweep import losses_in_strips
from mmvtr.models.temperature import Temperature
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels

CONFIG = Path(__file__).resolve().parents[2] / 'configs/dvtr_c2v_planted.py'


def peak_memory(step: Callable[[], None]) -> float:
    """MiB, above those held before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        step()
    events = [e for e in record.profiler.kineto_results.events() if e.name() == '[memory]']
    held = torch.tensor([e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())])
    return float(held.cumsum(0).max()) / 2**20


def compare(steps: dict[str, Callable[[], None]], runs: int) -> None:
    """A line for each step; the first one is what the others are compared with."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for run in range(runs + 1):
        for name, step in steps.items():
            start = time.process_time()
            step()
            if run:  # the first one warms up
                times[name].append(time.process_time() - start)
    first = None
    for name, step in steps.items():
        found = peak_memory(step), statistics.median(times[name])
        first = first or found
        shares = ', '.join(f'{x / y:.3f}' for x, y in zip(found, first))
        print(
            f'{name:24} {found[0]:8.0f} MiB {found[1]:8.2f} s   of the first: {shares}', flush=True
        )


def backward(losses: dict[str, Tensor]) -> None:
    sum(value for name, value in losses.items() if 'loss' in name).backward()


def micro_batch(runs: int) -> None:
    """128 clips of 12 frames through the planted corpus' tiny CLIP2Video with DVTR."""
    init_default_scope('mmvtr')
    model = MODELS.build(Config.fromfile(CONFIG).model).train()
    count, frames, words = 128, 12, 12
    names, index = [str(i) for i in range(count)], torch.arange(count)
    inputs = dict(
        video=torch.randn(count, frames, 3, 64, 64),
        frame_mask=torch.ones(count, frames, dtype=torch.bool),
        text=torch.randint(1, 40, (count, words)),
        text_mask=torch.ones(count, words, dtype=torch.bool),
    )
    samples = dict(video_idx=index, text_idx=index, text_videos=index[:, None])
    samples.update(text_ids=names, video_ids=names)

    def step(size: Optional[int]) -> None:
        model.micro_batch = size
        backward(model(inputs, samples, mode='loss'))

    sizes = (None, 32, 16, 8)
    compare({f'micro_batch={size}': lambda size=size: step(size) for size in sizes}, runs)


class Scores(nn.Module):
    """The part of a retriever behind its encoder: DVTR's supervision and the contrastive loss."""

    def __init__(self) -> None:
        super().__init__()
        self.objectives = nn.ModuleDict()
        self.similarity = CosineSimilarity()
        self.temperature = Temperature(learnable=True)
        self.supervision = DVTRSupervision()
        self.losses = nn.ModuleDict(dict(contrastive=ContrastiveLoss()))


def strips(batch: int, height: int, runs: int, *, matrix: bool) -> None:
    """DVTR's whole supervision and the contrastive loss, two captions and two columns a video."""
    dim, model = 256, Scores()

    def levels() -> Levels:
        mean, other = (torch.randn(batch, dim, requires_grad=True) for _ in range(2))
        log_std = (0.1 * torch.randn(batch, dim)).requires_grad_()
        return {'global': Embedding(mean), 'gaussian': Embedding(other, log_std=log_std)}

    texts, videos = levels(), levels()
    owner = torch.arange(batch) // 2
    samples = dict(video_idx=owner, text_videos=owner[:, None])
    known = Annotation(samples, torch.device('cpu'))

    def of_matrix() -> None:
        target, losses = model.supervision(texts, videos, known.target())
        scores = model.similarity(texts, videos)
        loss = model.losses['contrastive'](scores, target, model.temperature())
        backward({**losses, 'loss': loss})

    def of_strips() -> None:
        backward(losses_in_strips(model, texts, videos, known, height=height))

    made = {'matrix': of_matrix} if matrix else {}
    compare({**made, f'strip={height}': of_strips}, runs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--only', choices=('micro_batch', 'strip'), help='one of the two (default: both)')
    add('--batch', type=int, default=8192, help='texts and videos of the strips (default: 8192)')
    add('--height', type=int, default=256, help='texts a strip (default: 256)')
    add('--runs', type=int, default=5, help='of each step, beside the first (default: 5)')
    add('--no-matrix', action='store_true', help='strips alone, where the matrix is too large')
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.only != 'strip':
        micro_batch(args.runs)
    if args.only != 'micro_batch':
        strips(args.batch, args.height, args.runs, matrix=not args.no_matrix)


if __name__ == '__main__':
    main()
