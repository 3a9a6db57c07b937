"""Handling of missing and broken videos of the annotations: rejected, or left out and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Literal, NamedTuple, Optional, Sequence, Union

from mmengine.dist import all_gather_object
from mmengine.logging import MMLogger

from mmvtr.cli.hints import option
from mmvtr.datasets.annotation_files import read_text
from mmvtr.datasets.annotation_values import Place, problem, shown
from mmvtr.datasets.records import Records, keep
from mmvtr.storage import write_atomically

#: Options of a dataset for videos without a file.
Missing = Literal['raise', 'skip']


class LeftOut(NamedTuple):
    """Videos and texts that a set lacks.

    Attributes:
        names: ids of the videos without a file.
        texts: number of texts that have only such videos.
        of_videos, of_texts: numbers of the whole set.
    """

    names: tuple[str, ...]
    texts: int
    of_videos: int
    of_texts: int

    def __str__(self) -> str:
        return (
            f'{len(self.names):,} of {self.of_videos:,} clips and '
            f'{self.texts:,} of {self.of_texts:,} texts'
        )


def check_missing(missing: Any) -> None:
    """Raise ValueError unless it is 'raise' or 'skip'."""
    if missing not in ('raise', 'skip'):
        raise ValueError(f"missing must be 'raise' or 'skip', not {shown(missing)}")


def skip_advice(prefix: str) -> str:
    """Return advice about missing videos; ``prefix`` as in :func:`mmvtr.cli.hints.option`."""
    return f'{option("missing", "skip", prefix=prefix)} leaves them out'


def not_there(steps: Sequence[Callable], videos: Records) -> set[str]:
    """Return ids of the videos that a pipeline step does not find.

    Args:
        steps: steps of the pipeline; those that read files have a method ``missing(videos)``.
        videos: their records.

    Raises:
        FileNotFoundError: the whole store of a step is missing.
    """
    return {name for step in steps if hasattr(step, 'missing') for name in step.missing(videos)}


def leave(
    videos: Records, texts: Records, gone: set[str], before: Optional[LeftOut], origin: str
) -> tuple[Records, Records, Optional[LeftOut]]:
    """Return records without some videos and without texts of no other video; logged.

    Args:
        videos, texts: records of the set.
        gone: ids of the videos.
        before: what was left out already.
        origin: origin of the set, for messages.

    Returns:
        The remaining records, and all that is left out; None if nothing.

    Raises:
        ValueError: nothing remains, or processes miss different videos.
    """
    stay = [v for v, video in enumerate(videos) if video['video_id'] not in gone]
    videos, texts_left, left_out = _kept(videos, texts, stay, before)
    refuse_other_lists(left_out.names, origin)
    some = left_out.names[:3]
    if not videos or not texts_left:
        what = f'{left_out} are missing, so nothing is left, e.g. {shown(some)}'
        raise problem(Place(origin), what)
    if not left_out.names:
        return videos, texts_left, None
    more = ', ...' if len(left_out.names) > 3 else ''
    MMLogger.get_current_instance().warning(
        f'{origin}: {left_out} are missing and left out ({", ".join(some)}{more}). '
        'Results without them are not those of the whole set.'
    )
    return videos, texts_left, left_out


def subset(
    videos: Records,
    texts: Records,
    indices: Union[int, Sequence[int]],
    before: Optional[LeftOut],
    origin: str,
) -> tuple[Records, Records, LeftOut]:
    """Return some of the videos with their texts, and what is left out, which is logged.

    Args:
        videos, texts: records of the set.
        indices: as in mmengine's ``BaseDataset``: N = the first N videos, ``-N`` = the last N, or
            positions of videos.
        before: what was left out already.
        origin: origin of the set, for messages.

    Raises:
        ValueError: neither, a position that does not exist or is repeated, or no video remains.
    """
    count = len(videos)
    listed = [indices] if isinstance(indices, int) else list(indices)
    if any(isinstance(i, bool) or not isinstance(i, int) for i in listed):
        raise problem(Place(origin), f'indices must be whole numbers, not {shown(indices)}')
    if isinstance(indices, int):
        stay = [*range(count)][:indices] if indices >= 0 else [*range(count)][indices:]
    else:
        stay = sorted({i + count if i < 0 else i for i in listed})
        if len(stay) < len(listed) or not all(0 <= i < count for i in stay):
            raise problem(
                Place(origin),
                f'indices must be positions of {count:,} videos, each once, not {shown(indices)}',
            )
    chosen, texts_left, left_out = _kept(videos, texts, stay, before)
    if not chosen or not texts_left:
        raise problem(Place(origin), f'indices={shown(indices)} leaves no video that has a text')
    MMLogger.get_current_instance().warning(
        f'{origin}: indices leaves {left_out} out. Results are not those of the whole set.'
    )
    return chosen, texts_left, left_out


def _kept(
    videos: Records, texts: Records, stay: Sequence[int], before: Optional[LeftOut]
) -> tuple[Records, Records, LeftOut]:
    """Return the videos at some positions, their texts, and everything left out so far."""
    before = before or LeftOut((), 0, len(videos), len(texts))
    chosen, texts_left = keep(videos, texts, stay)
    gone = (videos[v]['video_id'] for v in sorted({*range(len(videos))}.difference(stay)))
    texts_gone = before.texts + len(texts) - len(texts_left)
    return chosen, texts_left, before._replace(names=(*before.names, *gone), texts=texts_gone)


def refuse_other_lists(names: Sequence[str], origin: str) -> None:
    """Raise unless all processes miss the same videos, since they divide one list of items.

    Raises:
        ValueError: they miss different videos; raised on every process.
    """
    lists = [set(lacking) for lacking in all_gather_object(sorted(names))]
    for rank, lacking in enumerate(lists):
        other = lacking ^ lists[0]
        if other:
            raise ValueError(
                f"{origin[:200]}, missing='skip': process {rank} lacks {len(lacking)} videos and "
                f'process 0 lacks {len(lists[0])}; the two differ in {len(other)}, e.g. '
                f'{shown(sorted(other)[:3])}: all machines must have the same files'
            )


#: Options of a dataset for broken videos.
OnBroken = Union[Literal['raise', 'skip'], dict[str, str]]


def read_on_broken(on_broken: OnBroken) -> dict[str, str]:
    """Return the list of broken videos that was given to a dataset.

    Args:
        on_broken: 'raise', 'skip', or ``dict(skip=FILE)``.

    Returns:
        Reason by video id; empty for the first two.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another ``on_broken``, or a malformed file (names the line).
    """
    if on_broken in ('raise', 'skip'):
        return {}
    if not _names_file(on_broken):
        raise ValueError(
            f"on_broken must be 'raise', 'skip' or dict(skip='FILE'), not {str(on_broken)[:80]!r}"
        )
    return read_broken(Path(on_broken['skip']))


def read_broken(path: Path) -> dict[str, str]:
    """Return the reason by video id; blank lines are skipped.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a text file, a line without an id, or a repeated id.
    """
    try:
        lines = read_text(path).split('\n')
    except FileNotFoundError:
        raise FileNotFoundError(
            f'no list of broken videos {path}: check_dataset.py --decode --report {path} writes it'
        ) from None
    except (OSError, ValueError) as error:
        reason = str(error).removeprefix(f'{path}: ')
        raise ValueError(f'list of broken videos {path}: {reason}'[:400]) from error
    broken: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, _, reason = line.rstrip('\r').partition('\t')
        if not name.strip() or name in broken:
            what = 'the id again' if name.strip() else 'no id'
            raise ValueError(
                f'{path}, line {number}: "ID<tab>REASON" expected, each id once, got {what}: '
                f'{line[:80]!r}'
            )
        broken[name] = reason or f'listed in {path}'
    return broken


def write_broken(path: Path, broken: dict[str, str]) -> None:
    """Write a list of broken videos, possibly empty; each reason is joined to one line."""
    lines = [f'{name}\t{" ".join(reason.split())}\n' for name, reason in broken.items()]
    write_atomically(path, lambda file: file.write(''.join(lines).encode()))


def _names_file(on_broken: Any) -> bool:
    return (
        isinstance(on_broken, dict)
        and [*on_broken] == ['skip']
        and isinstance(on_broken['skip'], str)
    )
