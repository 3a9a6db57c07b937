"""Check that the data of a config exist and can be read.

    python tools/dataset_converters/check_dataset.py CONFIG [--cfg-options key=value ...]
    python tools/dataset_converters/check_dataset.py CONFIG --decode [--workers 8]

Builds the datasets of the train, val and test dataloaders, reads some items of each (all of them if
features are stored) and prints the counts.  With --decode it reads all videos (all of their frames,
if the pipeline decodes files) and writes a list of those that cannot be read, which
``on_broken.skip=LIST`` of a dataset leaves out.  If a dataset's table is refused, its existing
videos are read nevertheless, so that one run reports everything that is wrong.  Exit code 1 if
something is missing or broken.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional, Sequence

from mmvtr.cli.start import tool

from mmengine.config import Config
from mmengine.registry import init_default_scope

from mmvtr.cli import Parser, count
from mmvtr.cli.hints import option
from mmvtr.cli.progress import show_progress
from mmvtr.datasets.folders import visible
from mmvtr.errors import UserError
from mmvtr.registry import DATASETS
from mmvtr.utils import load_config

#: Exceptions that datasets and transforms raise for unexpected files or annotations.
PROBLEMS = (OSError, ImportError, ValueError, KeyError, RuntimeError)

PARTS = ('train', 'val', 'test')

#: Number of broken videos that are named without --decode.
MAX_NAMED = 5


class Tried(NamedTuple):
    """Result of reading items: their number, the first readable one, reasons of the others."""

    count: int
    first: Optional[dict[str, Any]]
    broken: list[str]


class Job(NamedTuple):
    """A video to decode: its dataset and its position there."""

    part: str
    index: int


#: Datasets by part; decoding processes inherit them by fork.
_datasets: dict[str, Any] = {}


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file')
    add('--samples', type=count, default=16, help='videos of each set to decode (default: 16)')
    add('--decode', action='store_true', help='read all videos, and list those that are broken')
    add(
        '--report',
        type=Path,
        default=Path('broken_videos.txt'),
        metavar='LIST',
        help='what --decode writes: id, tab and reason of each broken video (default: %(default)s)',
    )
    add(
        '--workers',
        type=count,
        default=len(os.sched_getaffinity(0)),
        help='processes of --decode (default: all cores)',
    )
    parser.add_cfg_options()
    return parser.parse_args()


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options)
    init_default_scope(cfg.get('default_scope', 'mmvtr'))
    complete = True
    known: dict[str, str] = {}
    for part in filter(lambda part: cfg.get(f'{part}_dataloader'), PARTS):
        try:
            print(visible(f'{part}: {describe(part, cfg, args.samples)}'))
        except PROBLEMS as error:
            complete = False
            reason = error.args[0] if isinstance(error, KeyError) else error
            said = visible(f'{type(error).__name__}: {reason}')
            first = known.setdefault(said, part)
            if first != part:
                print(f'{part}: MISSING OR BROKEN, as {first}')
                continue
            print(f'{part}: MISSING OR BROKEN\n  {said}')
            if getattr(error, 'videos', None):
                _datasets[part] = stand_in(cfg[f'{part}_dataloader'].dataset, error.videos)
                tried = tried_videos(_datasets[part], args.samples)
                broken = f'  {told(tried, "videos")}'
                print(broken if tried.broken else '  the videos that were tried are fine')
    if args.decode and _datasets:
        complete = not decode(args) and complete
    sys.exit(0 if complete else 1)


def describe(part: str, cfg: Config, samples: int) -> str:
    """Build a dataset, read some of its items and return a summary of a few lines.

    Raises:
        RuntimeError: some of the videos are broken.
    """
    begin = time.perf_counter()
    dataset = DATASETS.build(cfg[f'{part}_dataloader'].dataset)
    built = time.perf_counter()
    dataset.on_broken = 'skip'  # so that reading goes on past them
    _datasets[part] = dataset
    videos = tried_videos(dataset, samples)
    texts = read_some(dataset.load_text, range(len(dataset.texts)), dataset.text_pipeline, samples)
    done = time.perf_counter()
    wrong = [told(*found) for found in ((videos, 'videos'), (texts, 'texts')) if found[0].broken]
    if wrong:
        raise UserError('\n  '.join(wrong))
    facts = ', '.join(f'{key} {value}' for key, value in dataset.protocol().items())
    lines = [facts]
    if dataset.left_out:
        lines.append(f'{dataset.left_out} are missing and LEFT OUT')
    if dataset.cut_texts:
        lines.append(f'{dataset.cut_texts}')
    if dataset.known_broken:
        lines.append(f'{len(dataset.known_broken)} listed as broken and LEFT OUT')
    if videos.first and texts.first:
        video, text = videos.first, texts.first
        lines.append(
            f'video {video["video_id"]}: {_shape(video["frames"])}; '
            f'text {text["text_id"]}: {_shape(text["tokens"])}'
        )
    lines.append(
        f'built in {built - begin:.1f} s, {videos.count} videos and {texts.count} texts read in '
        f'{done - built:.2f} s'
    )
    return '\n  '.join(lines)


def tried_videos(dataset: Any, samples: int) -> Tried:
    """Read some videos through the dataset's pipeline, or all if they are stored features."""
    return read_some(dataset.load_video, to_read(dataset), dataset.video_pipeline, samples)


def read_some(
    load: Callable[[int], dict[str, Any]], positions: Sequence[int], pipeline: Any, samples: int
) -> Tried:
    """Read texts or videos of a dataset: all if their features are stored, else a sample."""
    from mmvtr.datasets import (
        LoadExperts,
        LoadFeatures,
        LoadFrames,
        LoadFrameVectors,
        LoadTextFeatures,
        LoadVectors,
        LoadVideo,
    )

    stores = (LoadExperts, LoadFeatures, LoadFrameVectors, LoadTextFeatures, LoadVectors)
    steps = pipeline.transforms
    stored = any(isinstance(step, stores) for step in steps)
    if not stored or any(isinstance(step, (LoadFrames, LoadVideo)) for step in steps):
        positions = chosen(positions, samples)
    first, broken = None, []
    for position in positions:
        try:
            item = load(position)
        except ValueError as error:  # a broken text, which no option skips
            broken.append(str(error))
            continue
        if 'broken' in item:
            broken.append('{}: {}'.format(*item['broken']))
        else:
            first = first or item
    return Tried(len(positions), first, broken)


def told(tried: Tried, what: str) -> str:
    """Return the number of broken items, and some of the reasons."""
    more = ' (--decode tries all videos, and lists them)' if what == 'videos' else ''
    names = '\n'.join(f'  {reason}' for reason in tried.broken[:MAX_NAMED])
    return f'{len(tried.broken)} of {tried.count} {what} that were tried are broken{more}:\n{names}'


def stand_in(options: Any, videos: list[dict[str, Any]]) -> Any:
    """Return a dataset of the existing videos, without texts, of a table that was refused."""
    from mmvtr.datasets import VideoTextDataset

    class Videos(VideoTextDataset):
        key_prefix = ''

        def load_annotations(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
            return videos, []

    on_broken = options.get('on_broken', 'raise')
    return Videos(
        options.video_pipeline, [], on_broken='skip' if on_broken == 'raise' else on_broken
    )


def to_read(dataset: Any) -> list[int]:
    """Return the indices of the videos that are not known to be broken."""
    return [v for v, r in enumerate(dataset.videos) if r['video_id'] not in dataset.known_broken]


def chosen(positions: Sequence[int], samples: int) -> list[int]:
    """Return a fixed random sample of positions that includes the first one."""
    if len(positions) <= samples:
        return list(positions)
    return sorted([positions[0], *random.Random(0).sample(positions[1:], samples - 1)])


def _shape(x: Any) -> str:
    return f'{str(x.dtype).removeprefix("torch.")} {list(x.shape)}'


def decode(args: argparse.Namespace) -> dict[str, str]:
    """Read all videos, write and explain the list of broken ones; return reasons by id."""
    from mmvtr.datasets.videos.missing import write_broken

    jobs = jobs_of(_datasets)
    print(f'\ndecoding {len(jobs)} videos in {args.workers} processes', flush=True)
    found = run(jobs, args.workers)
    broken: dict[str, str] = {}
    for job in filter(found.get, jobs):
        broken.setdefault(_id_of(job), found[job])
    known = {name: why for set_ in _datasets.values() for name, why in set_.known_broken.items()}
    write_broken(args.report, {**known, **broken})
    print(f'{len(broken)} of {len(jobs)} videos are broken', end='')
    print(f', beside {len(known)} that were known to be' if known else '')
    for name, reason in broken.items():
        print(visible(f'  {name}: {reason}'))
    if broken:
        prefix = next(iter(_datasets.values())).key_prefix
        skip = option('on_broken.skip', str(args.report), prefix=prefix)
        print(
            f'listed in {args.report}; to do without them: {skip}. Without them a test set is '
            'another one, and its results cannot be compared.'
        )
    return broken


def jobs_of(datasets: dict[str, Any]) -> list[Job]:
    """Return all videos to decode; a clip that several datasets share is decoded once."""
    jobs: dict[tuple, Job] = {}
    for part, dataset in datasets.items():
        for v in to_read(dataset):
            record = dataset.videos[v]
            clip = tuple(record.get(key) for key in ('video_id', 'path', 'start', 'end'))
            jobs.setdefault(clip, Job(part, v))
    return [*jobs.values()]


def run(jobs: Sequence[Job], workers: int) -> dict[Job, str]:
    """Decode in ``workers`` processes; return the reasons why videos are broken.

    If a process dies, the whole pool fails: the videos in progress, the first of the remaining
    ones, are then decoded one by one to find the video that kills a process.
    """
    found: dict[Job, str] = {}
    left = list(jobs)
    with show_progress('videos decoded', len(jobs)) as advance:
        while left:
            left = run_pool(left, workers, found, advance)
            for suspect in left[: 2 * workers + 1]:
                if run_pool([suspect], 1, found, advance):
                    found[suspect] = 'the process that decoded it died'
                    advance()
            left = left[2 * workers + 1 :]
    return found


def run_pool(
    jobs: Sequence[Job], workers: int, found: dict[Job, str], advance: Callable[..., None]
) -> list[Job]:
    """Decode until all is done or a process dies; return the remaining jobs, in order."""
    left = dict.fromkeys(jobs)
    forked = multiprocessing.get_context('fork')  # inherits the datasets
    with ProcessPoolExecutor(workers, forked, initializer=start_process) as pool:
        waiting = {pool.submit(try_video, job): job for job in jobs}
        try:
            for done in as_completed(waiting):
                reason = done.result()
                del left[waiting[done]]
                advance()
                if reason is not None:
                    found[waiting[done]] = reason
        except BrokenProcessPool:
            pass  # the caller sees the remaining jobs
    return [*left]


def start_process() -> None:
    """Limit each process to one thread."""
    import cv2
    import torch

    cv2.setNumThreads(1)
    torch.set_num_threads(1)


def try_video(job: Job) -> Optional[str]:
    """Return why a video cannot be read; None if it can."""
    from mmvtr.datasets import LoadVideo
    from mmvtr.datasets.videos.video_io import decode_all

    dataset = _datasets[job.part]
    record = dataset.videos[job.index]
    try:
        for step in dataset.video_pipeline.transforms:
            if isinstance(step, LoadVideo):
                start, end = record.get('start'), record.get('end')
                decode_all(record['path'], start=start, end=end, max_bytes=step.max_bytes)
        item = dataset.load_video(job.index)
    except PROBLEMS as error:
        return visible(f'{error}') or type(error).__name__
    return item['broken'][1] if 'broken' in item else None


def _id_of(job: Job) -> str:
    return _datasets[job.part].videos[job.index]['video_id']


if __name__ == '__main__':
    main()
