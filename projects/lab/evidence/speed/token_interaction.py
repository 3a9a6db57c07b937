"""Token-wise scores: memory and time of our tiles, and time beside the form without tiles.

Times are the machine's own; the ratios are what to look at. All on one thread. 32 words, 12
frames, 512 dimensions, as on MSR-VTT; texts are full, or have 6 to 20 words in random number.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Callable, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.similarities.token_interaction import paired_token_scores, token_scores

WORDS, FRAMES, DIM = 32, 12, 512


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--items', type=int, default=2000, help='texts and videos of memory')
    parser.add_argument('--sizes', type=int, nargs='+', default=(128, 256), help='of the ratios')
    parser.add_argument('--repeats', type=int, default=3, help='best of this many runs')
    parser.add_argument('--no-memory', action='store_true', help='leave out the memory part')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    print(f'torch {torch.__version__}, one thread; {WORDS} words, {FRAMES} frames, {DIM}-d\n')
    if not args.no_memory:
        # First, and in a process of its own: a process inherits the peak of the one it forks from.
        with ProcessPoolExecutor(1, mp_context=get_context('spawn')) as pool:
            print(pool.submit(memory, args.items).result() + '\n', flush=True)
    for size in args.sizes:
        for full in (True, False):
            print(speed(size, full, args.repeats), flush=True)


class Items(NamedTuple):
    """Unit tokens and masks, in the order that the functions take."""

    words: Tensor
    word_mask: Tensor
    frames: Tensor
    frame_mask: Tensor


def items(size: int, *, full: bool = True) -> Items:
    """``size`` texts and ``size`` videos."""
    generator = torch.Generator().manual_seed(0)
    words = torch.randn(size, WORDS, DIM, generator=generator)
    frames = torch.randn(size, FRAMES, DIM, generator=generator)
    lengths = torch.randint(6, 21, (size, 1), generator=generator)
    word_mask = torch.arange(WORDS) < (WORDS if full else lengths)
    return Items(
        F.normalize(words, dim=-1),
        word_mask.expand(size, WORDS),
        F.normalize(frames, dim=-1),
        torch.ones(size, FRAMES, dtype=torch.bool),
    )


def memory(size: int, k: int = 100) -> str:
    """Peak of scoring all pairs over what the process holds once everything is imported.

    Counted: both sets of tokens, the score matrix and all temporaries.
    """
    torch.set_num_threads(1)
    before = peak()
    data = items(size)
    held = peak() - before
    start = time.perf_counter()
    scores = token_scores(*data)
    done = time.perf_counter()
    top = peak() - before
    columns = scores.topk(min(k, size), dim=1).indices
    again = time.perf_counter()
    paired = paired_token_scores(*data, columns)
    short = time.perf_counter() - again
    assert torch.allclose(paired, scores.gather(1, columns), atol=1e-6)
    return (
        f'{size} x {size}: {done - start:.1f} s, peak {top / 2**30:.2f} GiB above '
        f'{before / 2**30:.2f} GiB of imports (target < 1.5),\n  of which the tokens and their '
        f'making {held / 2**30:.2f}; all similarities would be '
        f'{4 * size**2 * WORDS * FRAMES / 2**30:.1f} GiB\n'
        f'  {columns.shape[1]} videos of each text alone: {short:.1f} s'
    )


def speed(size: int, full: bool, repeats: int) -> str:
    """Scores, and scores with gradients; both ways must agree."""
    torch.set_num_threads(1)
    data = items(size, full=full)
    lines = [f'{size} x {size}, {"32 words" if full else "6 to 20 words"}:']
    for title, run in (('scores', score), ('with gradients', score_and_gradients)):
        seconds = dict(tiled=float('inf'), untiled=float('inf'))
        found = {}
        for _ in range(repeats):  # in turn, so that a busy moment hits both
            for name, function in (('tiled', token_scores), ('untiled', untiled)):
                start = time.perf_counter()
                found[name] = run(function, data)
                seconds[name] = min(seconds[name], time.perf_counter() - start)
        assert torch.allclose(found['tiled'], found['untiled'], atol=1e-5)
        lines.append(
            f'  {title:16s} untiled {seconds["untiled"]:6.3f} s   tiled {seconds["tiled"]:6.3f} s'
            f'   tiled / untiled {seconds["tiled"] / seconds["untiled"]:.2f} (target <= 1)'
        )
    return '\n'.join(lines)


def untiled(words: Tensor, word_mask: Tensor, frames: Tensor, frame_mask: Tensor) -> Tensor:
    """All similarities [T, V, L, F] at once."""
    sims = torch.einsum('tld,vfd->tvlf', words, frames)
    sims = sims.masked_fill(~word_mask[:, None, :, None] | ~frame_mask[None, :, None], -10.0)
    a, b = (mask / mask.sum(1, keepdim=True) / 2 for mask in (word_mask, frame_mask))
    of_words = torch.einsum('tvl,tl->tv', sims.max(3).values, a)
    return of_words + torch.einsum('tvf,vf->tv', sims.max(2).values, b)


@torch.no_grad()
def score(function: Callable[..., Tensor], data: Items) -> Tensor:
    return function(*data)


def score_and_gradients(function: Callable[..., Tensor], data: Items) -> Tensor:
    words, frames = (x.detach().requires_grad_() for x in (data.words, data.frames))
    scores = function(words, data.word_mask, frames, data.frame_mask)
    torch.autograd.grad(scores.logsumexp(1).sum(), (words, frames))
    return scores.detach()


def peak() -> int:
    """Largest resident set of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == '__main__':
    main()
