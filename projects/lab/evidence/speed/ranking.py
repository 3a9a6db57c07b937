"""Speed and memory of ranking: ours, CLIP4Clip's multi-caption path, and a sort.

Times are the machine's own; the ratios are what to look at. All on one thread, as np.sort is.
Shapes: MSVD's test set (27,763 texts, 670 videos) for time, MSR-VTT's full test set (59,800 x
2,990) at 512 dimensions for memory.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Callable

import numpy as np
import torch
from torch import Tensor

from mmvtr.evaluation import RetrievalMetric
from mmvtr.functional.metrics.ranks import caption_max, ranks
from mmvtr.structures import Relation


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--texts', type=int, default=27763)
    parser.add_argument('--videos', type=int, default=670)
    parser.add_argument('--repeats', type=int, default=5, help='best of this many runs')
    parser.add_argument('--no-memory', action='store_true', help='leave out the memory part')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    print(f'torch {torch.__version__}, numpy {np.__version__}, one thread\n')
    if not args.no_memory:
        # First, and in a process of its own: a process inherits the peak of the one it forks from.
        with ProcessPoolExecutor(1, mp_context=get_context('spawn')) as pool:
            print(pool.submit(memory).result() + '\n')
    print(speed(args.texts, args.videos, args.repeats))


def speed(texts: int, videos: int, repeats: int) -> str:
    """Ranks in both directions from given scores; all ways must agree."""
    torch.set_num_threads(1)
    owner = captions(texts, videos)
    scores = torch.randn(texts, videos, generator=torch.Generator().manual_seed(0))
    positives = torch.eye(videos, dtype=torch.bool)[owner]
    grid = scores.numpy()
    seconds, found = {}, {}
    for name, function, times in (
        ('videos', lambda: ours(scores, positives), repeats),
        ('captions', lambda: ours_all_captions(scores, positives), repeats),
        ('CLIP4Clip', lambda: clip4clip(grid, owner.numpy()), 1),
        ('np.sort', lambda: (np.sort(grid, axis=1), np.sort(grid.T, axis=1)), repeats),
    ):
        seconds[name], found[name] = best_time(function, times)
    for mine, theirs in zip(found['videos'], found['CLIP4Clip']):
        assert torch.equal(mine.sort().values, theirs.double().sort().values)
    rows = (
        ('candidates are videos   (CLIP4Clip)', 'videos', 'CLIP4Clip', 20),
        ('candidates are captions (CE), sorted', 'captions', 'np.sort', 3),
    )
    lines = [f'ranks of {texts} texts and {videos} videos, both directions, scores given:']
    for title, mine, other, target in rows:
        ratio = seconds[other] / seconds[mine]
        lines.append(
            f'  {title:38s}{other:>10s} {seconds[other]:7.3f} s   ours {seconds[mine]:.3f} s   '
            f'{ratio:6.1f} times faster (target {target})'
        )
    return '\n'.join(lines)


def captions(texts: int, videos: int, most: int = 81) -> Tensor:
    """The video of each text, int64 [T]: 2 to ``most`` captions a video, as in MSVD."""
    counts = torch.linspace(2, most, videos).long()
    counts = (counts * texts / counts.sum()).long().clamp(1, most)
    counts[: texts - int(counts.sum())] += 1
    return torch.arange(videos).repeat_interleave(counts)


def best_time(function: Callable[[], object], repeats: int) -> tuple[float, object]:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def ours(scores: Tensor, positives: Tensor) -> tuple[Tensor, Tensor]:
    own = torch.diag(positives.any(0))
    return ranks(scores, positives), ranks(caption_max(scores, positives), own, dim=0)


def ours_all_captions(scores: Tensor, positives: Tensor) -> tuple[Tensor, Tensor]:
    return ranks(scores, positives), ranks(scores, positives, dim=0)


def clip4clip(scores: np.ndarray, owner: np.ndarray) -> tuple[Tensor, Tensor]:
    """Its multi-caption path, written anew from a description: pad, argsort twice, sort."""
    videos = scores.shape[1]
    counts = np.bincount(owner, minlength=videos)
    padded = np.full((videos, counts.max(), videos), -np.inf)  # float64
    for v, rows in enumerate(np.split(scores, counts.cumsum()[:-1])):
        padded[v, : len(rows)] = rows
    cube = torch.from_numpy(padded).transpose(0, 1)  # [captions, V of the caption, V]
    places = cube.argsort(dim=-1, descending=True).argsort(dim=-1)
    real = cube.diagonal(dim1=1, dim2=2).isfinite()
    t2v = places.diagonal(dim1=1, dim2=2)[real] + 1
    best = cube.max(0).values.t().numpy()  # [V, V of the captions]
    ordered = np.sort(-best, axis=1)
    v2t = np.where(ordered + np.diag(best)[:, None] == 0)[1] + 1
    return t2v, torch.from_numpy(v2t)


def memory(texts: int = 59800, videos: int = 2990, dim: int = 512, tile: int = 512) -> str:
    """Peak of scoring and ranking over what the process holds once everything is imported.

    Counted: both sets of embeddings, the positives, the score matrix and all temporaries of
    scoring, of the three protocols' ranks and of their chance levels.
    """
    torch.set_num_threads(1)
    before = peak()
    start = time.perf_counter()
    text, video = (torch.randn(n, dim).div_(dim**0.5) for n in (texts, videos))
    owner = torch.arange(texts) % videos
    positives = torch.zeros(texts, videos, dtype=torch.bool)
    positives[torch.arange(texts), owner] = True
    scores = torch.empty(texts, videos)
    for row in range(0, texts, tile):
        torch.mm(text[row : row + tile], video.t(), out=scores[row : row + tile])
    scored = time.perf_counter()
    metric = RetrievalMetric()
    metric({'scores': scores}, Relation(positives))
    metric.chance(Relation(positives))
    done = time.perf_counter()
    return (
        f'scoring and ranking of {texts} x {videos} at {dim} dimensions: '
        f'{(peak() - before) / 2**30:.2f} GiB above {before / 2**30:.2f} GiB of imports '
        f'(target < 2),\n  of which the score matrix is {scores.nbytes / 2**30:.2f} and the '
        f'positives {positives.nbytes / 2**30:.2f}; scoring {scored - start:.1f} s, '
        f'three protocols and chance {done - scored:.1f} s'
    )


def peak() -> int:
    """Largest resident set of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == '__main__':
    main()
