"""Dataset-level uncertainty (ARL Eq. 4): linear beside the map, and a pass over a stored dataset.

Times are the machine's own; the ratio is what to look at. All on one thread. The stored dataset has
the size of TVR's training set: 87,175 queries, 17,435 videos of up to 128 frames, 384 dimensions,
half precision on disk. Its numbers are random: nothing here depends on what they are.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Callable, NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.similarities.best_frames import BestFrames, best_frames, paired_best_frames
from mmvtr.functional.uncertainty.ambiguity import (
    Moments,
    ambiguous_set,
    own_positive,
    pair_uncertainty,
)
from mmvtr.functional.uncertainty.dataset_uncertainty import Uncertainty, dataset_uncertainty

QUERIES, VIDEOS, FRAMES, DIM = 87175, 17435, 128, 384
BATCH = 128  # videos
T = TypeVar('T')


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        '--sizes', type=int, nargs=3, default=(2000, 1000, 64), help='queries, videos, frames'
    )
    parser.add_argument('--repeats', type=int, default=3, help='best of this many runs')
    parser.add_argument('--scale', type=float, default=1.0, help='share of the stored dataset')
    parser.add_argument('--folder', help='where to store it (1.7 GB); default a temporary one')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    print(f'torch {torch.__version__}, one thread, {DIM}-d\n')
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        alone(store, Path(folder), args.scale)
        print(alone(stored_pass, Path(folder)) + '\n', flush=True)
    print(compare(*args.sizes, args.repeats))


def alone(function: Callable[..., T], *args: object) -> T:
    """Call in a process of its own: a process inherits the peak of the one it forks from."""
    with ProcessPoolExecutor(1, mp_context=get_context('spawn')) as pool:
        return pool.submit(function, *args).result()


def compare(queries: int, videos: int, frames: int, repeats: int) -> str:
    """Eq. 4 both ways; they must agree."""
    torch.set_num_threads(1)
    texts, images = torch.randn(queries, DIM), torch.randn(videos, frames, DIM)
    mask = torch.ones(videos, frames, dtype=torch.bool)
    seconds, found = dict(map=float('inf'), linear=float('inf')), {}
    for _ in range(repeats):  # in turn, so that a busy moment hits both
        for name, function in (('map', by_map), ('linear', dataset_uncertainty)):
            start = time.perf_counter()
            found[name] = function(texts, images, mask)
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    off = max(float((a - b).abs().max()) for a, b in zip(found['map'], found['linear']))
    assert off < 1e-6
    return (
        f'Eq. 4 of {queries} queries x {videos} videos x {frames} frames: map '
        f'{seconds["map"]:.2f} s, linear {seconds["linear"]:.4f} s, '
        f'{seconds["map"] / seconds["linear"]:.0f} times faster (target 50), '
        f'largest difference {off:.1e} (target 1e-6)'
    )


def by_map(texts: Tensor, frames: Tensor, mask: Tensor) -> Uncertainty:
    """All cosines [N_q, N_v F], as the paper has it."""
    valid = F.normalize(frames[mask], dim=-1)
    cosines = F.normalize(texts, dim=-1) @ valid.t()
    of_frames = torch.zeros(mask.shape).masked_scatter(mask, cosines.mean(0))
    return Uncertainty(cosines.mean(1), of_frames)


class Stored(NamedTuple):
    """Read-only memory maps, and the frames' mask."""

    texts: np.ndarray
    frames: np.ndarray
    mask: Tensor


def store(folder: Path, scale: float) -> None:
    """Write a random dataset, some videos at a time."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    videos = max(1, round(VIDEOS * scale))
    for name, shape in (
        ('texts', (QUERIES // VIDEOS * videos, DIM)),
        ('frames', (videos, FRAMES, DIM)),
    ):
        array = np.lib.format.open_memmap(folder / f'{name}.npy', 'w+', np.float16, shape)
        for start in range(0, len(array), 512):
            part = array[start : start + 512]
            part[:] = torch.randn(part.shape).half().numpy()
    lengths = torch.randint(FRAMES // 2, FRAMES + 1, (videos, 1))
    np.save(folder / 'mask.npy', (torch.arange(FRAMES) < lengths).numpy())


def stored_pass(folder: Path) -> str:
    """What an epoch needs: uncertainties, thresholds, then the sets of one batch."""
    torch.set_num_threads(1)
    before = peak()
    names = ('texts', 'frames', 'mask')
    texts, frames, mask = (np.load(folder / f'{x}.npy', mmap_mode='r') for x in names)
    data = Stored(texts, frames, torch.tensor(mask))
    start = time.perf_counter()
    uncertainty = Uncertainty(*map(torch.as_tensor, dataset_uncertainty(*data)))
    middle = time.perf_counter()
    tau_s, tau_u = thresholds(data, uncertainty)
    done = time.perf_counter()
    size, cells, of_batch = batch_sets(data, uncertainty, tau_u)
    numbers = data.texts.size + data.frames.size
    return (
        f'{len(texts)} queries x {len(frames)} videos x up to {FRAMES} frames, float16 on disk '
        f'({2 * numbers / 2**30:.2f} GiB):\n'
        f'  Eq. 4 {middle - start:.1f} s; thresholds over the {len(texts)} annotated pairs '
        f'{done - middle:.1f} s (tau_s {tau_s:.3f}, tau_u {tau_u:.1e})\n'
        f'  peak {(peak() - before) / 2**30:.2f} GiB above {before / 2**30:.2f} GiB of imports, '
        f'mapped pages included (target < 4)\n'
        f'  sets of a batch ({of_batch}): {size} of {cells} entries ambiguous'
    )


def thresholds(data: Stored, uncertainty: Uncertainty) -> tuple[float, float]:
    """Means over the annotated pairs: text i belongs to video i // 5."""
    rows = torch.arange(len(data.texts))
    columns = rows // (QUERIES // VIDEOS)
    best = BestFrames(*map(torch.as_tensor, paired_best_frames(*data, rows, columns)))
    similarity, common = Moments(), Moments()
    similarity.add(best.scores)
    common.add((uncertainty.texts[rows] + uncertainty.frames[columns, best.index]) / 2)
    return similarity.threshold(), common.threshold()


def batch_sets(data: Stored, uncertainty: Uncertainty, tau_u: float) -> tuple[int, int, str]:
    """Entries of A and of the matrix of the first videos with all their texts, and the time."""
    videos = min(BATCH, len(data.frames))
    texts = videos * (QUERIES // VIDEOS)
    words, images = (torch.tensor(x) for x in (data.texts[:texts], data.frames[:videos]))
    positives = (torch.arange(texts) // (QUERIES // VIDEOS))[:, None] == torch.arange(videos)
    start = time.perf_counter()
    scores, index = best_frames(words, images, data.mask[:videos])
    middle = time.perf_counter()
    found = ambiguous_set(
        scores,
        pair_uncertainty(uncertainty.texts[:texts], uncertainty.frames[:videos], index),
        positives,
        tau_s=own_positive(scores, positives),
        tau_u=tau_u,
        cap=5,
    )
    seconds = f'Eq. 3 {middle - start:.3f} s, Eq. 5-6 {time.perf_counter() - middle:.4f} s'
    return int(found.sum()), found.numel(), seconds


def peak() -> int:
    """Largest resident set of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == '__main__':
    main()
