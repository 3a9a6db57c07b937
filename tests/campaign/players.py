"""Videos of known pictures, half of them badly made: what is read is what a player shows.

Each file of :mod:`campaign.kinds` is read whole, a few frames at a time, one frame at a time,
between two moments and once a second, and every frame must show the number and stand the way that
it was made with.  Verdicts:

- 'right': all of that;
- 'silent': other frames, turned otherwise, or at other times;
- 'lost': a file that players show was refused;
- 'raw', 'hang' as ever.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, Optional

import numpy as np

from campaign import marked
from campaign.apart import Reader
from campaign.kinds import BADLY, WELL
from campaign.made import SLACK, Made
from campaign.trial import Trial
from mmvtr.datasets.videos.frame_sampling import per_second
from mmvtr.datasets.videos.video_io import decode_all, read_frames

#: Bytes that a reader may take: a jump in the clock must cost nothing.
MEMORY = 6 << 30
#: Frames that are read alone.
SINGLE = 5


class Question(NamedTuple):
    """What is asked of a file: which frames come, of a clip or of all.

    ``asked``: frames of the clip, where some of them are gone.
    """

    what: str
    select: str
    positions: tuple[int, ...] = ()
    start: Optional[float] = None
    end: Optional[float] = None
    answer: tuple[int, ...] = ()
    asked: tuple[int, ...] = ()


def run(
    count: int, seed: int, folder: Path, prepare: Optional[Callable[[], None]] = None
) -> list[Trial]:
    """Make and read files, one well and one badly made in turn.

    Args:
        count: how many.
        seed: of all that is drawn; file n of a seed is the same for any ``count``.
        folder: for the files; those of good trials are removed.
        prepare: called first in the process that reads (:class:`campaign.apart.Reader`).
    """
    kinds = [list(group.items()) for group in (WELL, BADLY)]
    trials = []
    with Reader(dict(look=_look, count=_count), prepare) as read:
        for number in range(count):
            group = kinds[number % 2]
            name, make = group[number // 2 % len(group)]
            random = np.random.default_rng([seed, number])
            made = make(folder / f'{number:04d}', random)
            trial = judge(name, made, random, read)
            if trial.detail:
                detail = f'run({number + 1}, {seed}), the last trial, {trial.detail}'
                trial = trial._replace(detail=detail[:500])
            else:
                made.path.unlink()
            trials.append(trial)
    return trials


def judge(row: str, made: Made, random: np.random.Generator, read: Reader) -> Trial:
    """Ask all questions of a file."""
    outcome = read('count', str(made.path))
    right = len(made.shown) - (len(made.gone) if made.gone == made.spoiled else 0)
    if outcome != ('frames', right) and not (made.spoiled and _refused(outcome)):
        return _bad(row, made, 'decoded whole', outcome, right)
    for question in _questions(made, random):
        outcome = read('look', str(made.path), question)
        if made.spoiled.intersection(question.asked or question.answer) and _refused(outcome):
            continue
        if outcome[0] != 'frames':
            return _bad(row, made, question.what, outcome, '')
        _, times, marks, sizes = outcome
        right = [tuple(made.shown[i]) for i in question.answer]
        if marks != right:
            return _bad(row, made, question.what, *_first_unlike(marks, right))
        if made.size is not None and np.abs(np.subtract(sizes, made.size)).max() > 1:
            return _bad(row, made, question.what, sizes, made.size)
        if question.what == 'whole' and made.times is not None and not made.gone:
            off = np.abs(np.subtract(times, made.times)).max()
            if off > made.slack:
                return _bad(row, made, f'times, {off:.3g} s off', times[:3], made.times[:3])
    return Trial(row, 'right')


def _refused(outcome: tuple) -> bool:
    return outcome[:2] == ('error', 'known')


def _questions(made: Made, random: np.random.Generator) -> Iterator[Question]:
    places = range(len(made.shown))
    yield Question('whole', 'all', answer=tuple(i for i in places if i not in made.gone))
    alone = random.choice(places, min(SINGLE, len(places)), replace=False).tolist()
    if made.spoiled:  # a frame that is gone moves the places of others, but no times
        yield from _of_spoiled(made, alone)
        return
    some = tuple(sorted(random.choice(places, min(6, len(places)), replace=False).tolist()))
    yield Question(f'frames {some}', 'some', some, answer=some)
    for place in alone:
        yield Question(f'frame {place} alone', 'some', (place,), answer=(place,))
    if made.times is not None and made.slack == SLACK:
        first, last = sorted(random.choice(places, 2, replace=False).tolist())
        yield _between(made, first, last)
        times = np.array(made.times)
        if times[0] == 0:
            seconds = np.floor(times + SLACK / 2)
            new = np.flatnonzero(np.diff(seconds, prepend=-1))
            yield Question('once a second', 'seconds', answer=tuple(new.tolist()))


def _of_spoiled(made: Made, alone: list[int]) -> Iterator[Question]:
    """The first and last spoiled frame, those beside them, others, all before and all behind."""
    first, last = min(made.spoiled), max(made.spoiled)
    for place in {*alone, first, last, first - 1, last + 1} & {*range(len(made.shown))}:
        yield _between(made, place, place)
    if first:
        yield _between(made, 0, first - 1)
    if last + 1 < len(made.shown):
        yield _between(made, last + 1, len(made.shown) - 1)


def _between(made: Made, first: int, last: int) -> Question:
    """A clip that begins and ends between two frames, where no rounding matters."""
    times = made.times
    start = times[first] + 0.015
    end = (times[last] + times[last + 1]) / 2 if last + 1 < len(times) else times[last] + 0.02
    held = first  # a frame stays until the next one that there is
    while held in made.gone:
        held -= 1
    answer = (held, *(i for i in range(first + 1, last + 1) if i not in made.gone))
    asked = (held, *range(first, last + 1))
    return Question(f'from {start:.3f} to {end:.3f} s', 'all', (), start, end, answer, asked)


def _look(path: str, question: Question) -> tuple[list, list, list]:
    """All times that the reader was told, what the frames show that it gave, and their sizes."""
    _limit_memory()
    told: list[np.ndarray] = []
    selects: dict[str, Callable[[np.ndarray], np.ndarray]] = dict(
        all=lambda times: np.arange(len(times)),
        some=lambda times: np.array(question.positions),
        seconds=lambda times: per_second(times, 1000),
    )

    def select(times: np.ndarray) -> np.ndarray:
        told.append(times)
        return selects[question.select](times)

    frames = read_frames(path, select, start=question.start, end=question.end)
    marks = [marked.read(frame) for frame in frames]
    sizes = [frame.shape[:2] for frame in frames]
    return told[-1].tolist(), [None if mark is None else tuple(mark) for mark in marks], sizes


def _count(path: str) -> tuple[int]:
    _limit_memory()
    return (decode_all(path),)


def _first_unlike(marks: list, right: list) -> tuple[object, object]:
    """The first frame that is not right, or how many there are."""
    if len(marks) != len(right):
        return f'{len(marks)} frames', len(right)
    return next(pair for pair in zip(marks, right) if pair[0] != pair[1])


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _bad(row: str, made: Made, what: str, found: object, right: object) -> Trial:
    verdict = 'silent'
    if isinstance(found, tuple) and found[0] == 'hang':
        verdict = 'hang'
    elif isinstance(found, tuple) and found[0] == 'error':
        verdict = 'lost' if found[1] == 'known' else 'raw'
    return Trial(row, verdict, f'{made.path.name}, {what}: {found}, not {right}')
