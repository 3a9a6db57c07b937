"""Several processes compute the loss and gradients of a single one: NCCL on GPUs, gloo on a CPU."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from gpu_check.models import loss_alone, step, total, vectors
from gpu_check.report import Part, Table, Verdict
from gpu_check.setting import Setting
from gpu_check.steps import BAR, differences
from mmvtr.storage import read_plain, write_plain

DIM, ITEMS = 64, 60


def processes(setting: Setting) -> Part:
    """Compare one process with the joint batch to N processes with a share each."""
    count = torch.cuda.device_count() if setting.device.type == 'cuda' else 2
    if count < 2:
        return Part('Processes', ['Not checked: this needs two GPUs, and there is one.'])
    backend = 'nccl' if setting.device.type == 'cuda' else 'gloo'
    model = loss_alone(DIM).to(setting.device).train()
    expected = step(model, vectors(ITEMS, DIM, setting.device))
    rows, values, failed = [], {}, []
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_share, (count, backend, folder, free_port()), nprocs=count)
        for block_rows in (None, 7):
            found = read_plain(Path(folder) / f'{block_rows}.pth', kind='result')
            name = 'whole matrix' if block_rows is None else 'blocks'
            off = differences((found['loss'], found['gradients']), expected)
            values[name] = off
            rows.append((name, *(f'{x:.1e}' for x in off.values())))
            if not max(off.values()) <= BAR:
                failed.append(f'{name} {max(off.values()):.1e}')
    worst = max(max(x.values()) for x in values.values())
    return Part(
        'Processes',
        [f'{count} processes ({backend}) beside one with the joint batch of {ITEMS} pairs.'],
        [Table(('losses from', 'loss', 'gradients'), rows)],
        [
            Verdict(
                f'{count} {backend} processes within {BAR:g} of one',
                not failed,
                '; '.join(failed) or f'largest {worst:.1e}',
            )
        ],
        dict(processes=count, backend=backend, **values),
    )


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def _share(rank: int, count: int, backend: str, folder: str, port: int) -> None:
    """Run one process; shares are uneven, so that equal sizes cannot be relied on."""
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    device = torch.device('cuda', rank) if backend == 'nccl' else torch.device('cpu')
    if backend == 'nccl':
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(backend, rank=rank, world_size=count)
    edges = [0] + [ITEMS * (i + 1) // count + (i % 2 == 0) * (i + 1 < count) for i in range(count)]
    batch = part_of(vectors(ITEMS, DIM, device), slice(edges[rank], edges[rank + 1]))
    for block_rows in (None, 7):
        model = loss_alone(DIM, block_rows=block_rows).to(device).train()
        wrapped = DistributedDataParallel(model)
        loss = total(wrapped(**batch, mode='loss'))
        loss.backward()
        if rank == 0:
            gradients = {n: p.grad.cpu() for n, p in model.named_parameters() if p.grad is not None}
            path = Path(folder) / f'{block_rows}.pth'
            write_plain(dict(loss=loss.detach().cpu(), gradients=gradients), path)
    dist.barrier()
    dist.destroy_process_group()


def part_of(batch: dict[str, Any], rows: slice) -> dict[str, Any]:
    """Return some pairs of a batch."""
    return {
        side: {name: values[rows] for name, values in known.items()}
        for side, known in batch.items()
    }
