"""Speed and memory of Sinkhorn over embeddings, against one tiled matrix product.

Times are the machine's own; the ratio is what to look at: what the exponentials, logarithms and
sums of a pass add to making its scores.  Default shapes: NCL's queue and MSVD's test captions.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from mmvtr.functional.similarities.tiles import Tiles, inner_products
from mmvtr.functional.transforms.sinkhorn import sinkhorn


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--queries', type=int, default=16384)
    parser.add_argument('--gallery', type=int, default=27763)
    parser.add_argument('--dim', type=int, default=512)
    parser.add_argument('--iterations', type=int, default=4)
    parser.add_argument('--memmap', action='store_true', help='gallery in a mapped float16 file')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    before = peak()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        queries = unit_vectors(args.queries, args.dim, seed=0)
        if args.memmap:
            gallery = mapped(Path(folder) / 'gallery.f16', args.gallery, args.dim)
        else:
            gallery = unit_vectors(args.gallery, args.dim, seed=1)
        tiles = inner_products(queries, gallery)
        first = product_seconds(tiles)
        start = time.perf_counter()
        biases = sinkhorn(tiles, temperature=0.05, iterations=args.iterations)
        seconds = time.perf_counter() - start
        product = (first + product_seconds(tiles)) / 2
        embeddings = queries.nbytes + gallery.nbytes
        assert biases.columns.isfinite().all() and biases.rows.isfinite().all()
    passes = args.iterations + 1
    above = peak() - before
    print(
        f'torch {torch.__version__}, {torch.get_num_threads()} thread(s)\n'
        f'{args.queries} x {args.gallery} from {args.dim}-d embeddings, tiles of {tiles.width} '
        f'columns, {passes} passes\n'
        f'  sinkhorn {seconds:.1f} s, one tiled product {product:.2f} s: ratio '
        f'{seconds / (passes * product):.2f} of (passes x product), target 3\n'
        f'  peak {above / 2**20:.0f} MiB above {before / 2**20:.0f} MiB of imports, '
        f'{(above - embeddings) / 2**20:.0f} MiB beyond the embeddings '
        f'({embeddings / 2**20:.0f} MiB)'
    )


def unit_vectors(count: int, dim: int, *, seed: int) -> Tensor:
    vectors = torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))
    return normalize(vectors, dim=1)


def mapped(path: Path, count: int, dim: int, *, rows: int = 4096) -> np.ndarray:
    """Unit vectors written to a float16 file piece by piece, and the file mapped read-only."""
    with path.open('wb') as file:
        for start in range(0, count, rows):
            part = unit_vectors(min(rows, count - start), dim, seed=1 + start)
            file.write(part.half().numpy().tobytes())
    return np.memmap(path, dtype=np.float16, mode='r', shape=(count, dim))


def product_seconds(tiles: Tiles) -> float:
    """One pass that makes the scores and drops them."""
    start = time.perf_counter()
    for _ in tiles.parts():
        pass
    return time.perf_counter() - start


def peak() -> int:
    """Largest resident set of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == '__main__':
    main()
