"""Mutations of annotation files: each is refused in words, or read as what it says.

What it says is a second reading's word, which shares nothing with the project's readers
(:mod:`campaign.references`): the same videos and texts in the same order, with the same ids, words,
times, classes and features.  What that one cannot read nobody may accept.
"""

from __future__ import annotations

import math
import shutil
import signal
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any, Mapping, Optional

from mmengine.logging import MMLogger

from campaign.content import Content, content_of, difference
from campaign.layouts import LAYOUTS, MADE_UP, Layout
from campaign.plain import Unreadable
from campaign.spoiled import spoil
from campaign.trial import Trial
from mmvtr.datasets import BrokenVideoError, VideoTextDataset
from mmvtr.utils import register_all_modules

#: Seconds that a load may take; characters of a line of a message (it may name three rows of a
#: file), and of a message that tells of several kinds of problems.
SECONDS, LONGEST, MOST = 10.0, 750, 2500

#: What readers raise in words: of a missing store or video it is a KeyError, of one item a
#: BrokenVideoError.
IN_WORDS = (ValueError, FileNotFoundError, KeyError, BrokenVideoError)


class Hang(BaseException):
    """No end in time; no reader catches it."""


def run(
    count: int, seed: int, folder: Path, layouts: Optional[Mapping[str, Layout]] = None
) -> list[Trial]:
    """Spoil and load, the layouts in turn.

    Args:
        count: how many mutations.
        seed: of all of them; mutation n of a seed is the same for any ``count``.
        folder: where files are written, and removed again.
        layouts: by row; default all.

    Returns:
        ``count`` trials.
    """
    register_all_modules()
    layouts = LAYOUTS if layouts is None else layouts
    logger = MMLogger.get_current_instance()
    level = logger.level
    logger.setLevel('ERROR')  # counts that differ from the published ones are no news here
    try:
        files = {row: files_read(layout, folder) for row, layout in layouts.items()}
        return [
            _trial(row, layouts[row], files[row], f'{seed}-{n}', folder)
            if files[row]
            else Trial(row, 'lost', 'is not right as it is written')
            for n, row in enumerate(islice(cycle(layouts), count))
        ]
    finally:
        logger.setLevel(level)


def files_read(layout: Layout, folder: Path) -> list[str]:
    """The files of a layout that its load reads: without them it ends otherwise.

    None of a layout that is not right as it is written.
    """
    with _written(layout, folder / 'whole') as root:
        names = [str(path.relative_to(root)) for path in sorted(root.rglob('*')) if path.is_file()]
        if judge(layout, root, root)[0] != 'right':
            return []
    found = []
    for name in names:
        with _written(layout, folder / 'without') as root:
            (root / name).write_bytes(b'\xff')
            if judge(layout, root, root / name)[0] != 'right':
                found.append(name)
    return found


@contextmanager
def _written(layout: Layout, root: Path) -> Iterator[Path]:
    root.mkdir(parents=True)
    try:
        layout.write(root)
        yield root
    finally:
        shutil.rmtree(root)


def _trial(row: str, layout: Layout, files: list[str], name: str, folder: Path) -> Trial:
    random = Random(name)
    with _written(layout, folder / name) as root:
        path = root / random.choice(files)
        way = spoil(random, path)
        verdict, detail = judge(layout, root, path)
        return Trial(row, verdict, f'{name} {path.name} {way}: {detail}'[:2000])


def judge(layout: Layout, root: Path, spoiled: Path) -> tuple[str, str]:
    """Load a folder in which one file is spoiled, and all of its items.

    Returns:
        A verdict of :mod:`campaign.trial`, and what came.
    """
    try:
        with in_time(SECONDS):
            dataset = layout.load(root)
            items = _items(dataset)
            found = content_of(dataset)
    except Hang:
        return 'hang', f'no end in {SECONDS} s'
    except IN_WORDS as error:
        message = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
        detail = f'{type(error).__name__}: {message}'
        if type(error) not in IN_WORDS:  # UnicodeDecodeError is a ValueError, but no words
            return 'raw', detail
        if any(len(line) > LONGEST for line in message.splitlines()) or len(message) > MOST:
            return 'long', detail
        return ('refused' if spoiled.name in message else 'nameless'), detail
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return 'raw', f'{type(error).__name__}: {error}'
    unlike = _unsound(dataset, items) or _unlike(layout, root, found)
    return ('silent', unlike) if unlike else ('right', f'{len(items)} items')


def _items(dataset: VideoTextDataset) -> list[dict[str, Any]]:
    dataset.protocol(), dataset.moment_ratio(), dataset.relevance()
    return [dataset[i] for i in range(len(dataset))]


def _unlike(layout: Layout, root: Path, found: Content) -> str:
    """Where what was read is not what the files say; '' if it is."""
    try:
        right = layout.reading(root)
    except Unreadable as error:
        return f'accepted, and the plain reading finds: {error}'
    for video in right.videos:
        video.setdefault('features', MADE_UP)
    return difference(found._asdict(), right._asdict())


def _unsound(dataset: VideoTextDataset, items: list[dict[str, Any]]) -> str:
    """What is wrong with what was accepted; '' if nothing is."""
    if not dataset.videos or not dataset.texts or not items:
        return 'an empty set'
    for kind, records in (('video', dataset.videos), ('text', dataset.texts)):
        ids = [record[f'{kind}_id'] for record in records]
        if len(set(ids)) < len(ids):
            return f'a {kind} id twice'
        for record, name in zip(records, ids):
            if not _is_id(name):
                return f'{kind} id {name[:80]!r}'
            wrong = _wrong_times(record)
            if wrong:
                return f'{kind} {name!r}: {wrong}'
    for text in dataset.texts:
        if not _is_caption(text['text']):
            return f'caption {text["text"][:80]!r}'
        if not text['video_idx']:
            return f'text {text["text_id"]!r} without a video'
    return ''


def _is_id(name: Any) -> bool:
    if not isinstance(name, str) or not name.strip() or len(name) > 255:
        return False
    if any(unicodedata.category(char)[0] == 'C' for char in name):
        return False
    parts = name.replace('\\', '/').split('/')
    return not any(part.strip() in ('', '.', '..') for part in parts)


def _is_caption(text: Any) -> bool:
    return (
        isinstance(text, str)
        and '\0' not in text
        and not any(unicodedata.category(char) == 'Cs' for char in text)
        and any(unicodedata.category(char)[0] not in 'CZM' for char in text)
    )


def _wrong_times(record: dict[str, Any]) -> str:
    times = {
        key: record[key] for key in ('start', 'end', 'duration', 'num_frames') if key in record
    }
    for key, value in times.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return f'{key} {value!r:.80}'
        if not math.isfinite(value) or value < 0 or value > 1e15:
            return f'{key} {value}'
    if times.get('start', 0) >= times.get('end', math.inf):
        return f'from {times["start"]} to {times["end"]} s'
    return 'a length of 0' if 0 in (times.get('duration'), times.get('num_frames')) else ''


@contextmanager
def in_time(seconds: float) -> Iterator[None]:
    """Raise :class:`Hang` where it takes longer; for the main thread."""

    def end(*_: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
