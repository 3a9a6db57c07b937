"""Videos that annotations tell of and nobody has any more: refused, or left out and counted."""

from __future__ import annotations

from typing import Any, Callable, Literal, NamedTuple, Optional, Sequence, Union

from mmengine.dist import all_gather_object
from mmengine.logging import MMLogger

from mmvtr.datasets.annotation_values import Place, problem, shown
from mmvtr.datasets.records import Records, keep
from mmvtr.hints import option

#: What a dataset may do about videos without a file.
Missing = Literal['raise', 'skip']


class LeftOut(NamedTuple):
    """Videos and texts that a set lacks.

    Attributes:
        names: of the videos without a file.
        texts: how many texts have no video but these.
        of_videos, of_texts: how many the whole set has.
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
        raise ValueError(f"missing: 'raise' or 'skip', not {shown(missing)}")


def skip_advice(prefix: str) -> str:
    """Return advice about missing videos; ``prefix`` as in :func:`mmvtr.hints.option`."""
    return f'{option("missing", "skip", prefix=prefix)} leaves them out'


def not_there(steps: Sequence[Callable], videos: Records) -> set[str]:
    """Return ids of the videos that a pipeline step does not find.

    Args:
        steps: of the pipeline; those that read files have a method ``missing(videos)``.
        videos: their records.

    Raises:
        FileNotFoundError: not even the store, where a step reads one.
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
        origin: of the set, for messages.

    Returns:
        The records that stay, and all that is left out; None: nothing.

    Raises:
        ValueError: nothing stays, or other videos than on other processes are gone.
    """
    names = [video['video_id'] for video in videos if video['video_id'] in gone]
    stay = [v for v, video in enumerate(videos) if video['video_id'] not in gone]
    before = before or LeftOut((), 0, len(videos), len(texts))
    videos, kept = keep(videos, texts, stay)
    left_out = before._replace(
        names=(*before.names, *names), texts=before.texts + len(texts) - len(kept)
    )
    refuse_other_lists(left_out.names, origin)
    some = left_out.names[:3]
    if not videos or not kept:
        what = f'{left_out} are missing, so nothing is left, e.g. {shown(some)}'
        raise problem(Place(origin), what)
    if not left_out.names:
        return videos, kept, None
    more = ', ...' if len(left_out.names) > 3 else ''
    MMLogger.get_current_instance().warning(
        f'{origin}: {left_out} are missing and left out ({", ".join(some)}{more}). '
        'A result without them is not one on the whole set.'
    )
    return videos, kept, left_out


def subset(
    videos: Records,
    texts: Records,
    indices: Union[int, Sequence[int]],
    before: Optional[LeftOut],
    origin: str,
) -> tuple[Records, Records, LeftOut]:
    """Return some of the videos with their texts, and what is left out; the log says it.

    Args:
        videos, texts: records of the set.
        indices: as of mmengine's ``BaseDataset``: the first N videos, the last N of ``-N``, or
            positions of videos.
        before: what was left out already.
        origin: of the set, for messages.

    Raises:
        ValueError: neither, a position that is not there or listed twice, or no video stays.
    """
    count = len(videos)
    listed = [indices] if isinstance(indices, int) else list(indices)
    if any(isinstance(i, bool) or not isinstance(i, int) for i in listed):
        raise problem(Place(origin), f'indices: whole numbers, not {shown(indices)}')
    if isinstance(indices, int):
        stay = [*range(count)][:indices] if indices >= 0 else [*range(count)][indices:]
    else:
        stay = sorted({i + count if i < 0 else i for i in listed})
        if len(stay) < len(listed) or not all(0 <= i < count for i in stay):
            raise problem(
                Place(origin),
                f'indices: positions of {count:,} videos, each once, not {shown(indices)}',
            )
    before, given = before or LeftOut((), 0, count, len(texts)), len(texts)
    chosen, kept = keep(videos, texts, stay)
    if not chosen or not kept:
        raise problem(Place(origin), f'indices={shown(indices)} leaves no video that has a text')
    names = tuple(v['video_id'] for v in (videos[i] for i in sorted({*range(count)} - {*stay})))
    left_out = before._replace(
        names=(*before.names, *names), texts=before.texts + given - len(kept)
    )
    MMLogger.get_current_instance().warning(
        f'{origin}: indices leaves {left_out} out. A result is not one on the whole set.'
    )
    return chosen, kept, left_out


def refuse_other_lists(names: Sequence[str], origin: str) -> None:
    """Raise unless all processes miss the same videos, since each takes a share of one list.

    Raises:
        ValueError: they do not; on every process.
    """
    lists = [set(own) for own in all_gather_object(sorted(names))]
    for rank, own in enumerate(lists):
        other = own ^ lists[0]
        if other:
            raise ValueError(
                f"{origin[:200]}, missing='skip': process {rank} lacks {len(own)} videos and "
                f'process 0 {len(lists[0])}, which differ in {len(other)}, e.g. '
                f'{shown(sorted(other)[:3])}: all machines must have the same files'
            )
