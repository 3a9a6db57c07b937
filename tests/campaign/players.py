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
from campaign.made import Made
from campaign.trial import Trial
from mmvtr.datasets.videos.frame_sampling import per_second
from mmvtr.datasets.videos.video_io import decode_all, read_frames

#: Seconds by which times may be off: containers round them to a millisecond, some to ten.
SLACK = 0.011
#: Bytes that a reader may take: a jump in the clock must cost nothing.
MEMORY = 6 << 30
#: Frames that are read alone.
SINGLE = 5


class Question(NamedTuple):
    """What is asked of a file: which of the ``function``'s frames come, of a clip or of all."""

    what: str
    select: str
    positions: tuple[int, ...] = ()
    start: Optional[float] = None
    end: Optional[float] = None
    answer: tuple[int, ...] = ()


def run(count: int, seed: int, folder: Path) -> list[Trial]:
    """Make and read files, one well and one badly made in turn.

    Args:
        count: how many.
        seed: of all that is drawn; file n of a seed is the same for any ``count``.
        folder: for the files; those of good trials are removed.
    """
    kinds = [list(group.items()) for group in (WELL, BADLY)]
    trials = []
    with Reader(look=_look, count=_count) as read:
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
    if outcome != ('frames', len(made.shown)):
        return _bad(row, made, 'decoded whole', outcome, len(made.shown))
    for question in _questions(made, random):
        outcome = read('look', str(made.path), question)
        if outcome[0] != 'frames':
            return _bad(row, made, question.what, outcome, '')
        _, times, marks = outcome
        right = [tuple(made.shown[i]) for i in question.answer]
        if marks != right:
            return _bad(row, made, question.what, *_first_unlike(marks, right))
        if question.what == 'whole' and made.times is not None:
            off = np.abs(np.subtract(times, made.times)).max()
            if off > SLACK:
                return _bad(row, made, f'times, {off:.3g} s off', times[:3], made.times[:3])
    return Trial(row, 'right')


def _questions(made: Made, random: np.random.Generator) -> Iterator[Question]:
    places = range(len(made.shown))
    yield Question('whole', 'all', answer=tuple(places))
    some = tuple(sorted(random.choice(places, min(6, len(places)), replace=False).tolist()))
    yield Question(f'frames {some}', 'some', some, answer=some)
    for alone in random.choice(places, min(SINGLE, len(places)), replace=False).tolist():
        yield Question(f'frame {alone} alone', 'some', (alone,), answer=(alone,))
    if made.times is not None:
        times = np.array(made.times)
        first, last = sorted(random.choice(places, 2, replace=False).tolist())
        # Between the frames, where no rounding matters.
        start = times[first] + 0.015
        end = (times[last] + times[last + 1]) / 2 if last + 1 < len(times) else times[last] + 0.02
        answer = tuple(range(first, last + 1))
        yield Question(f'from {start:.3f} to {end:.3f} s', 'all', (), start, end, answer)
        if times[0] == 0:
            seconds = np.floor(times + SLACK / 2)
            new = np.flatnonzero(np.diff(seconds, prepend=-1))
            yield Question('once a second', 'seconds', answer=tuple(new.tolist()))


def _look(path: str, question: Question) -> tuple[list[float], list[Optional[tuple]]]:
    """All times that the reader was told, and what the frames show that it gave."""
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
    return told[-1].tolist(), [None if mark is None else tuple(mark) for mark in marks]


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
