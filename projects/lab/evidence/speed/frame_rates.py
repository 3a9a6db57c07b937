"""How fast frames come from videos and from stored JPEGs, and what JPEG costs.

    python projects/lab/evidence/speed/frame_rates.py VIDEO ... [--quality 80 90 95]

Both ways end with the same crops of CLIP's size. One thread, files in the system's cache; each
video is read by both in turn, and the best of several rounds counts. Files that cannot be decoded
are left out and named.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple

import cv2
import numpy as np
import torch

from mmvtr.datasets import BrokenVideoError, CenterCrop, LoadFrames, LoadVideo, ResizeShortSide
from mmvtr.datasets.videos.frame_store import SETTINGS, Settings, write_shard
from mmvtr.datasets.videos.video_io import read_frames


class Row(NamedTuple):
    """What was measured of a video: seconds to read it, dB and bytes a frame by quality."""

    name: str
    shape: tuple[int, int]
    frames: int
    video: float
    stored: dict[int, float]
    psnr: dict[int, float]
    size: dict[int, float]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('videos', nargs='+', type=Path, metavar='VIDEO')
    add('--quality', nargs='+', type=int, default=[90], help='of the JPEGs')
    add('--num-frames', type=int, default=12)
    add('--sampling', default='per_second')
    add('--size', type=int, default=224, help='pixels of the crops')
    add('--rounds', type=int, default=5)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    rows = []
    for path in args.videos:
        try:
            rows.append(measure(path, args))
        except BrokenVideoError as error:
            print(f'left out: {error}')
    report(rows, args)


def measure(path: Path, args: argparse.Namespace) -> Row:
    """One video by both ways."""
    record = dict(video_id=path.name, path=str(path))
    sampling = dict(num_frames=args.num_frames, sampling=args.sampling)
    fps = 1 if args.sampling == 'per_second' else None
    whole = read_frames(str(path), lambda times: np.arange(len(times)))
    after = [ResizeShortSide(args.size), CenterCrop(args.size)]
    with tempfile.TemporaryDirectory() as folder:
        loads: dict[Any, Any] = dict(video=LoadVideo(**sampling))
        for quality in args.quality:
            store = Path(folder, str(quality))
            store.mkdir()
            settings = Settings(args.size, quality, fps)
            (store / SETTINGS).write_text(json.dumps(settings._asdict()))
            write_shard(store, '0', [record], settings)
            loads[quality] = LoadFrames(str(store), **sampling)
        best = dict.fromkeys(loads, np.inf)
        for _ in range(args.rounds):
            for name, load in loads.items():
                best[name] = min(best[name], seconds(lambda: run([load, *after], record)))  # noqa: B023
        images = run([loads['video'], *after], record)
        stored = {q: run([loads[q], *after], record) for q in args.quality}
        sizes = {q: loads[q].store.clips[path.name].bytes.mean() for q in args.quality}
    return Row(
        path.name,
        whole[0].shape[:2],
        len(images),
        best.pop('video'),
        best,
        {q: psnr(images, stored[q]) for q in args.quality},
        sizes,
    )


def run(steps: list[Any], record: dict[str, Any]) -> list[np.ndarray]:
    """The frames that a pipeline ends with."""
    results = dict(record)
    for step in steps:
        results = step.transform(results)
    return results['imgs']


def seconds(function: Callable[[], Any]) -> float:
    """How long a call takes."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def psnr(images: list[np.ndarray], others: list[np.ndarray]) -> float:
    """Peak signal-to-noise ratio in dB, of all pixels together."""
    error = np.mean((np.stack(images).astype(np.float64) - np.stack(others)) ** 2)
    return float(10 * np.log10(255**2 / error)) if error else np.inf


def report(rows: list[Row], args: argparse.Namespace) -> None:
    """A line a video, and the totals."""
    print(f'{"video":44} pixels    frames  ms video  q: ms stored, times faster, dB, kB a frame')
    for row in rows:
        parts = [
            f'{q}: {1e3 * row.stored[q]:.1f}, {row.video / row.stored[q]:.1f}, '
            f'{row.psnr[q]:.1f}, {row.size[q] / 1e3:.1f}'
            for q in args.quality
        ]
        pixels = f'{row.shape[1]}x{row.shape[0]}'
        print(
            f'{row.name:44} {pixels:9} {row.frames:6}  {1e3 * row.video:8.1f}  {"   ".join(parts)}'
        )
    frames, video = sum(row.frames for row in rows), sum(row.video for row in rows)
    print(f'\n{len(rows)} videos, {frames} frames: LoadVideo {frames / video:.0f} frames/s')
    for q in args.quality:
        stored = sum(row.stored[q] for row in rows)
        times = np.median([row.video / row.stored[q] for row in rows])
        db = [row.psnr[q] for row in rows]
        size = sum(row.size[q] * row.frames for row in rows) / frames / 1e3
        print(
            f'quality {q}: LoadFrames {frames / stored:.0f} frames/s, {video / stored:.1f} times '
            f'(median of the videos: {times:.1f}); PSNR {np.median(db):.1f} dB (median; '
            f'{min(db):.1f} to {max(db):.1f}), {size:.1f} kB a frame'
        )


if __name__ == '__main__':
    main()
