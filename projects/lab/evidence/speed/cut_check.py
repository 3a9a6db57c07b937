"""What it costs to see that a video file was cut short, beside choosing frames from it.

    python projects/lab/evidence/speed/cut_check.py FOLDER [--frames 12] [--rounds 5]

The least of some rounds of both, file by file, in one process; files that cannot be read are named
and left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Callable

from mmvtr.datasets.videos.frame_sampling import uniform
from mmvtr.datasets.videos.stated_size import stated_size
from mmvtr.datasets.videos.video_io import BrokenVideoError, read_frames


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('folder', type=Path)
    parser.add_argument('--frames', type=int, default=12)
    parser.add_argument('--rounds', type=int, default=5)
    args = parser.parse_args()
    checks, reads = [], []
    for path in sorted(path for path in args.folder.iterdir() if path.is_file()):
        try:
            reads.append(least(partial(read, path, args.frames), args.rounds))
        except BrokenVideoError as error:
            print(f'left out: {error}')
            continue
        checks.append(least(partial(check, path), args.rounds))
    if not reads:
        raise SystemExit(f'error: {args.folder} holds no video that can be read')
    shares = [100 * one / whole for one, whole in zip(checks, reads)]
    print(
        f'{len(reads)} files: {100 * sum(checks) / sum(reads):.2f} % of the time of choosing '
        f'{args.frames} frames, median {statistics.median(shares):.2f} %, most {max(shares):.1f} %'
    )


def read(path: Path, count: int) -> None:
    read_frames(str(path), lambda times: uniform(times, count))


def check(path: Path) -> None:
    with open(path, 'rb') as file:
        stated_size(file, os.fstat(file.fileno()).st_size)


def least(work: Callable[[], None], rounds: int) -> float:
    """Seconds of the fastest of some rounds."""
    seconds = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


if __name__ == '__main__':
    main()
