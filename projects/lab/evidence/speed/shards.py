"""What a fit in files costs on Ray: seconds by workers, on this machine.

    python projects/lab/evidence/speed/shards.py [--items 1000000] [--workers 1 2 4 8]
        [--transforms nnn sinkhorn] [--out FILE.json]

Vectors of 64 entries, float16, in 20 .npy files; 2,000 bank texts; ids and rows of float16 are
written.  Wall seconds are those of the call, without the start of the workers; CPU seconds are
those of the workers.  Without ``--workers``, the same in this process without Ray.  The biases of
the first file are compared with those of one fit of all files, unless there are over 200,000.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mmvtr

WIDTH, FILES, BANK = 64, 20, 2000
#: Most items that are also fitted as a whole.
WHOLE = 200_000


def made(folder: Path, items: int) -> list[Path]:
    """Write the files of a gallery in which some items are near to everything."""
    rng, paths = np.random.default_rng(0), []
    for number in range(FILES):
        rows = rng.standard_normal((items // FILES, WIDTH), dtype='f4')
        rows[:, 0] += np.exp(0.6 * rng.standard_normal(len(rows), dtype='f4'))
        paths.append(folder / f'part{number:02d}.npy')
        np.save(paths[-1], rows.astype('f2'))
    return paths


def busy() -> float:
    """Return the CPU seconds that Ray's workers of this machine have used."""
    ticks = 0
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            if Path(f'/proc/{name}/cmdline').read_text().startswith('ray::'):
                fields = Path(f'/proc/{name}/stat').read_text().rpartition(')')[2].split()
                ticks += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return ticks / os.sysconf('SC_CLK_TCK')


def measured(paths: list[Path], bank: np.ndarray, transform: str, workers: int) -> dict[str, Any]:
    """Return the seconds of one fit; 0 workers: in this process."""
    from mmvtr_gallery.shards import fit_shards

    how: dict[str, Any] = dict(dtype='float16', engine='ray' if workers else 'here')
    with tempfile.TemporaryDirectory() as folder:
        if workers:
            import ray

            ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
            warm = Path(folder, 'warm')
            warm.mkdir()
            few = made(warm, 40 * FILES)
            fit_shards(few, bank, transform, out=warm / 'out', **how)
        before, cpu = time.monotonic(), busy() if workers else time.process_time()
        fit_shards(paths, bank, transform, out=Path(folder, 'out'), **how)
        wall = time.monotonic() - before
        cpu = (busy() if workers else time.process_time()) - cpu
        found: dict[str, Any] = dict(transform=transform, workers=workers, load=os.getloadavg()[0])
        found |= dict(seconds=round(wall, 1), cpu=round(cpu, 1))
        rows = [np.load(x) for x in paths] if sum(map(rows_of, paths)) <= WHOLE else []
        if rows:
            from pyarrow import parquet

            fitted = mmvtr.fit(np.concatenate(rows), bank, transform)
            part = parquet.read_table(Path(folder, 'out', f'{paths[0].stem}.parquet'))
            apart = part['bias'].to_numpy() - fitted.biases_[: len(part)].numpy()
            found['apart'] = float(np.abs(apart).max())
        if workers:
            ray.shutdown()
    return found


def rows_of(path: Path) -> int:
    return len(np.load(path, mmap_mode='r'))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--items', type=int, default=1_000_000)
    parser.add_argument('--workers', type=int, nargs='+', default=[0])
    parser.add_argument('--transforms', nargs='+', default=['nnn', 'sinkhorn'])
    parser.add_argument('--out', type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault('RAY_worker_niceness', '0')
    bank = np.random.default_rng(1).standard_normal((BANK, WIDTH), dtype='f4')
    bank[:, 0] += 1
    found = []
    with tempfile.TemporaryDirectory() as folder:
        paths = made(Path(folder), args.items)
        for transform in args.transforms:
            for workers in args.workers:
                found.append(dict(items=args.items, **measured(paths, bank, transform, workers)))
                print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    if args.out is not None:
        args.out.write_text(json.dumps(found, indent=1) + '\n')


if __name__ == '__main__':
    main()
