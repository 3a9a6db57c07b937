"""Decode a config's videos once into tar shards of resized JPEGs, to train on instead.

    python tools/extract_frames.py CONFIG --out DIR [--processes 8]

It covers the videos of the train, val and test datasets.  ``LoadFrames`` reads ``DIR``
(docs/media.md explains how to switch a config to it).  It stores the frames that the config's
sampling can request: with 'per_second' one frame per second, otherwise all frames.  A killed run
resumes with the missing shards.
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Iterator

from mmvtr.cli.start import tool

from mmengine.config import Config

from mmvtr.cli import Parser, count, output_folder
from mmvtr.utils import load_config


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file, whose video pipelines begin with LoadVideo')
    add(
        '--out',
        required=True,
        metavar='DIR',
        type=output_folder,
        help='folder to write; the same command continues a run that ended early',
    )
    add(
        '--size',
        type=count,
        metavar='PIXELS',
        help="short side of larger frames; default: the config's ResizeShortSide, else as they are",
    )
    add('--quality', type=int, default=90, help='quality of the JPEGs, 1 to 100 (default: 90)')
    add('--fps', type=count, help="frames a second; default: what the config's sampling needs")
    add(
        '--shard-size',
        type=count,
        default=256,
        metavar='VIDEOS',
        help='videos per shard (default: 256)',
    )
    add('--processes', type=count, default=len(os.sched_getaffinity(0)), help='default: all cores')
    parser.add_cfg_options()
    args = parser.parse_args()
    if not 1 <= args.quality <= 100:
        parser.error(f'--quality must be from 1 to 100, not {args.quality}')
    return args


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options)
    settings = settings_of(cfg, args)
    videos = videos_of(cfg)
    args.out.mkdir(parents=True, exist_ok=True)
    with alone(args.out):
        check_settings(args.out, settings)
        extract(args, videos, settings)


def settings_of(cfg: Config, args: argparse.Namespace) -> Any:
    """Return how frames are stored, from the arguments and the config's video pipelines."""
    from mmvtr.datasets.videos.frame_store import Settings
    from mmvtr.engine.launching import LOADERS
    from mmvtr.registry import bare_name

    steps = [step for name in filter(cfg.get, LOADERS) for step in cfg[name].dataset.video_pipeline]
    samplings = {s.get('sampling', 'uniform') for s in steps if bare_name(s) == 'LoadVideo'}
    if not samplings:
        raise SystemExit(f'error: no video pipeline of {args.config} has LoadVideo')
    size = max([s.size for s in steps if bare_name(s) == 'ResizeShortSide'], default=None)
    needed = 1 if samplings == {'per_second'} else None
    fps = args.fps or needed
    print(f'sampling {", ".join(sorted(samplings))}: {f"{fps} frames a second" if fps else "all"}')
    return Settings(args.size or size, args.quality, fps)


def videos_of(cfg: Config) -> list[dict[str, Any]]:
    """Return the records of all datasets, each video once.

    Raises:
        SystemExit: a dataset cannot be built, or two of them use one id for different clips.
    """
    from mmvtr.engine.launching import LOADERS, check_datasets

    for name in filter(cfg.get, LOADERS):
        cfg[name].dataset.text_pipeline = []  # it would need vocabularies
    videos: dict[str, dict[str, Any]] = {}
    for name, dataset in check_datasets(cfg).items():
        for record in dataset.videos:
            clip = {key: record.get(key) for key in ('video_id', 'path', 'start', 'end')}
            if videos.setdefault(clip['video_id'], clip) != clip:
                raise SystemExit(
                    f'error: {name}: {clip}, but another set has {videos[clip["video_id"]]}'
                )
    return list(videos.values())


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, which the system frees when a run is killed."""
    with open(folder / 'lock', 'w') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit(f'error: another run is writing to {folder}') from None
        yield


def check_settings(folder: Path, settings: Any) -> None:
    """Record the settings of a new store, or check that they equal those of an existing one.

    Raises:
        SystemExit: they differ.
    """
    from mmvtr.datasets.videos.frame_store import read_settings, write_settings

    try:
        stored = read_settings(folder)
    except FileNotFoundError:
        return write_settings(folder, settings)
    except ValueError as error:
        raise SystemExit(f'error: {error}') from error
    if stored != settings:
        raise SystemExit(
            f'error: {folder} holds frames of {stored}, these would be of {settings}: '
            'choose another --out'
        )


def extract(args: argparse.Namespace, videos: list[dict[str, Any]], settings: Any) -> None:
    """Write the missing shards, and report videos that cannot be read."""
    from mmvtr.datasets.videos.frame_store import FrameStore

    remove_torn(args.out)
    try:
        there = FrameStore(args.out).clips
    except ValueError as error:  # a damaged shard
        raise SystemExit(f'error: {error}') from error
    todo = [video for video in videos if video['video_id'] not in there]
    print(f'{args.out}: {len(todo)} videos to do, {len(videos) - len(todo)} are there')
    if todo:
        write_shards(args, todo, settings)
    clips = FrameStore(args.out).clips
    broken = [clips[v['video_id']].reason for v in videos if clips[v['video_id']].reason]
    print(f'{args.out}: done, {len(broken)} broken videos stored as such')
    for reason in broken:
        print(f'  {reason}')


def remove_torn(folder: Path) -> None:
    """Remove unfinished shards of a killed run."""
    from mmvtr.datasets.videos.frame_store import complete

    done = {path.stem for path in complete(folder)}
    for path in folder.iterdir():
        if path.suffix == '.part' or (path.suffix == '.tar' and path.stem not in done):
            path.unlink()


def write_shards(args: argparse.Namespace, todo: list[dict[str, Any]], settings: Any) -> None:
    """Write all videos to shards, under free names."""
    from mmvtr.cli.progress import show_progress
    from mmvtr.datasets.videos.frame_store import complete, write_shard

    done = {path.stem for path in complete(args.out)}
    names = (name for name in map('{:06d}'.format, itertools.count()) if name not in done)
    parts = [todo[i : i + args.shard_size] for i in range(0, len(todo), args.shard_size)]
    forked = multiprocessing.get_context('fork')  # inherits the imports
    pool = ProcessPoolExecutor(args.processes, forked, initializer=start_process)
    with show_progress('videos decoded', len(todo)) as advance, pool as executor:
        jobs = [
            executor.submit(write_shard, args.out, name, part, settings)
            for name, part in zip(names, parts)
        ]
        try:
            for job in as_completed(jobs):
                advance(job.result())
        except BrokenProcessPool:
            raise SystemExit(
                'error: a process was killed (out of memory?); the same command goes on'
            ) from None


def start_process() -> None:
    """Limit the process to one thread, and end it with the run, whose lock it inherits."""
    import cv2
    import torch

    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """Wait for the parent to end, then end this process."""
    wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


if __name__ == '__main__':
    main()
