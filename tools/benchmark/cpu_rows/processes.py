"""The joint batch of a step divided over processes (gloo), beside one process."""

from __future__ import annotations

import copy
import json
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from mmengine.model import MMDistributedDataParallel
from mmengine.optim import OptimWrapper

from cpu_rows.steps import DIM, FRAMES, WORDS, collated, retriever
from cpu_rows.timing import Row

STEPS = 5


def processes(quick: bool, repeats: int) -> list[Row]:
    """CPU seconds of all processes together: a ratio of 1 is an efficiency of 100 %."""
    size, rows = 16 if quick else 512, []
    for count in (2,) if quick else (2, 4):
        seconds, alone = [], []
        for _ in range(repeats):
            loss, taken = _steps(count, size)
            expected, anchor = _steps(1, size)
            seconds.append(taken)
            alone.append(anchor)
        work = f'a step of InfoNCE, {size:,} pairs of features, {count} processes'
        same = f'losses within {abs(loss - expected) / abs(expected):.1g}'
        rows.append(Row(work, '1 process', seconds, alone, same=same))
    return rows


def _steps(count: int, size: int) -> tuple[float, float]:
    """Return the first loss, and the CPU seconds a step of all processes."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_process, (count, size, folder), nprocs=count)
        told = [json.loads(Path(f'{folder}/{rank}.json').read_text()) for rank in range(count)]
    return told[0][0], sum(seconds for _, seconds in told)


def _process(rank: int, count: int, size: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group('gloo', f'file://{folder}/meet', rank=rank, world_size=count)
    torch.manual_seed(0)
    model, own = retriever({}), torch.arange(size).chunk(count)[rank]
    frames, words = torch.randn(size, FRAMES, DIM), torch.randn(size, WORDS, DIM)
    data = collated(frames[own], words[own])
    for name in ('text_videos', 'video_idx', 'text_idx'):
        data['data_samples'][name] = data['data_samples'][name] + int(own[0])
    model = MMDistributedDataParallel(model) if count > 1 else model
    optimizer = OptimWrapper(torch.optim.AdamW(model.parameters(), 1e-5))
    loss = model.train_step(copy.copy(data), optimizer)['loss'].item()
    started = time.process_time()
    for _ in range(STEPS):
        model.train_step(copy.copy(data), optimizer)
    seconds = (time.process_time() - started) / STEPS
    Path(f'{folder}/{rank}.json').write_text(json.dumps([loss, seconds]))
    dist.destroy_process_group()
