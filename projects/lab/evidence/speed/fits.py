"""What a fit and a search cost beside one product in numpy and FAISS, in one run.

    python projects/lab/evidence/speed/fits.py [--out FILE.json] [--sizes 20000:1000:float32 ...]

A size is items:bank texts:dtype, of 512 dimensions, in a mapped npy file.  Each figure comes from a
process of its own.  CPU seconds of a fit are divided by those of one product bank x gallery in
numpy, in float32 and in tiles, that was timed directly before it; peaks are above those of the
imports, divided by the bytes of the gallery: all pages (those of the mapped file count), and the
anonymous ones, which a copy of the gallery would need.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np

WIDTH, TILE, K = 512, 2**13, 10
SIZES = ('20000:1000:float32', '200000:1000:float32', '1000000:190:float16')
FITS = ('csls', 'nnn', 'sinkhorn', 'unbalanced_sinkhorn')
PARTS = (*(f'fit {name}' for name in FITS), 'search raw', 'search debiased', 'faiss search')


def measured(sizes: tuple[str, ...] = SIZES) -> list[dict[str, Any]]:
    """Return a row a size: figures by part."""
    rows = []
    for size in sizes:
        items, bank, dtype = size.split(':')
        with tempfile.TemporaryDirectory() as folder:
            made(Path(folder), int(items), int(bank), dtype)
            row: dict[str, Any] = dict(size=size)
            for part in PARTS:
                call = [sys.executable, __file__, '--part', part, folder]
                said = subprocess.run(call, check=True, capture_output=True, text=True).stdout
                row[part] = json.loads(said)
                print(size, part, said.strip(), flush=True)
            rows.append(row)
    return rows


def made(folder: Path, items: int, bank: int, dtype: str) -> None:
    """Write a gallery with a few hubs, and a bank."""
    random = np.random.default_rng(0)
    shape = (items, WIDTH)
    gallery = np.lib.format.open_memmap(folder / 'gallery.npy', 'w+', np.dtype(dtype), shape)
    for start in range(0, items, TILE):
        part = random.standard_normal((min(TILE, items - start), WIDTH), dtype=np.float32)
        part[::100] += 0.3
        gallery[start : start + TILE] = part
    gallery.flush()
    np.save(folder / 'bank.npy', random.standard_normal((bank, WIDTH), dtype=np.float32) + 0.1)


class Peak:
    """Pages of this process, all and anonymous, at their most."""

    def __enter__(self) -> Peak:
        self.before, self.most, self._on = pages(), dict(all=0, anonymous=0), True
        self._watch = threading.Thread(target=self._look)
        self._watch.start()
        return self

    def _look(self) -> None:
        while self._on:
            now = pages()
            self.most = {name: max(x, now[name]) for name, x in self.most.items()}
            time.sleep(0.002)

    def __exit__(self, *exception: Any) -> None:
        self._on = False
        self._watch.join()

    def above(self, size: int) -> dict[str, float]:
        return {k: round((x - self.before[k]) / size, 3) for k, x in self.most.items()}


def pages() -> dict[str, int]:
    found = dict(line.split(':') for line in Path('/proc/self/status').read_text().splitlines())
    return {
        name: 1024 * int(found[key].split()[0])
        for name, key in (('all', 'VmRSS'), ('anonymous', 'RssAnon'))
    }


def cpu(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def product(bank: np.ndarray, gallery: np.ndarray) -> None:
    for start in range(0, len(gallery), TILE):
        bank @ gallery[start : start + TILE].astype(np.float32).T


def run_part(part: str, folder: Path) -> dict[str, Any]:
    import torch

    import mmvtr

    gallery = np.load(folder / 'gallery.npy', mmap_mode='r')
    bank = np.load(folder / 'bank.npy')
    mmvtr.fit(bank[:60], bank, 'sinkhorn').search(bank[:1], K)  # imports
    kind, name = part.split()
    if kind == 'fit':
        once = cpu(lambda: product(bank, gallery))
        with Peak() as peak:
            seconds = cpu(lambda: mmvtr.fit(gallery, bank, name))
        ratio = dict(products=round(seconds / once, 2), product_s=round(once, 2))
        return dict(cpu_s=round(seconds, 2), **ratio, peak=peak.above(gallery.nbytes))
    asked = bank[:1]
    if kind == 'faiss':
        import faiss

        faiss.omp_set_num_threads(torch.get_num_threads())
        index = faiss.IndexFlatIP(WIDTH)
        for start in range(0, len(gallery), TILE):
            index.add(gallery[start : start + TILE].astype(np.float32))
        index.search(asked, K)
        batch = cpu(lambda: index.search(bank, K))
        return dict(cpu_s=round(cpu(lambda: index.search(asked, K)), 4), bank_cpu_s=round(batch, 2))
    with Peak() as peak:
        given = (bank, 'nnn') if name == 'debiased' else (None, None)
        fitted = mmvtr.fit(gallery, *given)
        seconds = cpu(lambda: fitted.search(asked, K))
    once = cpu(lambda: product(asked, gallery))
    batch = cpu(lambda: fitted.search(bank, K))
    return dict(
        cpu_s=round(seconds, 4),
        numpy_s=round(once, 4),
        bank_cpu_s=round(batch, 2),
        peak=peak.above(gallery.nbytes),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sizes', nargs='+', default=SIZES)
    parser.add_argument('--out', type=Path)
    parser.add_argument('--part', nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        print(json.dumps(run_part(args.part[0], Path(args.part[1]))))
        return
    rows = measured(tuple(args.sizes))
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1) + '\n')


if __name__ == '__main__':
    main()
