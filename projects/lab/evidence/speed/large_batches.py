"""What `micro_batch` and `block_rows` cost and save, beside the plain step: time and peak memory.

    python projects/lab/evidence/speed/large_batches.py
    python projects/lab/evidence/speed/large_batches.py --only blocks --batch 32768 --no-matrix
    python projects/lab/evidence/speed/large_batches.py --only processes --processes 4

Peak memory is what torch allocates at most during a step, above what it held before: model, batch
and gradients of weights.  Times are CPU seconds, medians of alternating runs; only their ratio says
something.  Set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Callable, Optional

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from mmengine.config import Config
from mmengine.registry import init_default_scope
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from mmvtr.dist import gather_levels, gather_rows
from mmvtr.models.annotation import JointIds
from mmvtr.models.blocks import losses_in_blocks
from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.supervisions.dvtr import DVTRSupervision
from mmvtr.models.temperature import Temperature
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels

CONFIG = Path(__file__).resolve().parents[4] / 'configs/dvtr_c2v_planted.py'


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


def levels_of(items: int, dim: int = 256) -> Levels:
    """What an encoder and heads would give."""
    mean, other = (torch.randn(items, dim, requires_grad=True) for _ in range(2))
    log_std = (0.1 * torch.randn(items, dim)).requires_grad_()
    return {'global': Embedding(mean), 'gaussian': Embedding(other, log_std=log_std)}


def owned(first: int, last: int) -> JointIds:
    """Two captions and two columns a video; texts and videos first to last are this process'."""
    owner = torch.arange(first, last) // 2
    samples = dict(video_idx=owner, text_videos=owner[:, None])
    return JointIds(samples, torch.device('cpu'))


def whole(model: Scores, texts: Levels, videos: Levels, known: JointIds) -> None:
    """The step of a whole matrix."""
    target, losses = model.supervision(texts, videos, known.target())
    scores = model.similarity(texts, videos)
    loss = model.losses['contrastive'](scores, target, model.temperature())
    backward({**losses, 'loss': loss})


def blocks(batch: int, rows: int, runs: int, *, matrix: bool) -> None:
    """DVTR's whole supervision and the contrastive loss."""
    model, known = Scores(), owned(0, batch)
    texts, videos = levels_of(batch), levels_of(batch)

    def of_blocks() -> None:
        backward(losses_in_blocks(model, texts, videos, known, rows=rows))

    made = {'matrix': lambda: whole(model, texts, videos, known)} if matrix else {}
    compare({**made, f'block_rows={rows}': of_blocks}, runs)


def share(rank: int, count: int, batch: int, rows: int, folder: str) -> None:
    """One of the processes: its peak memory with the whole matrix, and in blocks."""
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group(
        'gloo', init_method=f'file://{folder}/store', rank=rank, world_size=count
    )
    first, last = (batch * (rank + i) // count for i in range(2))
    model, texts, videos = Scores(), levels_of(last - first), levels_of(last - first)

    def step(run: Callable[..., None]) -> None:
        joint = gather_levels(texts), gather_levels(videos)
        run(model, *joint, owned(first, last))

    def of_blocks(*given: object) -> None:
        backward(losses_in_blocks(*given, rows=rows))

    step(of_blocks)  # gradients are there
    found = torch.tensor([[peak_memory(lambda run=run: step(run)) for run in (whole, of_blocks)]])
    peaks = gather_rows(found).amax(0).tolist()
    if rank == 0:
        print(
            f'{count} processes, the largest: matrix {peaks[0]:.0f} MiB, block_rows={rows} '
            f'{peaks[1]:.0f} MiB, {peaks[1] / peaks[0]:.3f} of it',
            flush=True,
        )
    dist.destroy_process_group()


def processes(count: int, batch: int, rows: int) -> None:
    """Peak memory of equal shares of a joint batch."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(share, (count, batch, rows, folder), nprocs=count)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    kinds = ('micro_batch', 'blocks', 'processes')
    add('--only', choices=kinds, help='one of them (default: the first two)')
    add('--batch', type=int, default=8192, help='texts and videos of the blocks (default: 8192)')
    add('--rows', type=int, default=256, help='texts a block (default: 256)')
    add('--runs', type=int, default=5, help='of each step, beside the first (default: 5)')
    add('--processes', type=int, default=4, help='of --only processes (default: 4)')
    add('--no-matrix', action='store_true', help='blocks alone, where the matrix is too large')
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.only == 'processes':
        processes(args.processes, args.batch, args.rows)
    if args.only in (None, 'micro_batch'):
        micro_batch(args.runs)
    if args.only in (None, 'blocks'):
        blocks(args.batch, args.rows, args.runs, matrix=not args.no_matrix)


if __name__ == '__main__':
    main()
