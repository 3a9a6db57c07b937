"""Windows over a video: their start and end times, and their rows in a store."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from mmvtr_gallery.store.items import Item, checked_vectors
from mmvtr_gallery.store.refits import Vectors

#: Columns that identify the item of a window: the item's id, and when it was added.
OWNER, ENTRY = 'of_item', 'of_added'
#: Key of ``about`` under which a store of windows records how they were cut.
SAID = 'windows'
#: Maximal number of windows of one video.
MOST = 100_000
#: Why videos that are added later get no windows.
NOT_NOTED = 'the gallery does not say how its windows were cut (export_index.py --windows does)'


class Windows(NamedTuple):
    """W >= 1 windows of one item.

    Attributes:
        starts, ends: seconds of the file, [W].
        vectors: float [W, D], from the model that made the items' vectors.
    """

    starts: Sequence[float]
    ends: Sequence[float]
    vectors: Vectors


class Windowing(NamedTuple):
    """How a video is cut into windows; the frames of a window are sampled like those of a video.

    Attributes:
        length: seconds of a window.
        step: seconds from one start to the next.
    """

    length: float
    step: float

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> Optional['Windowing']:
        """Return how a store's windows were cut; None if it has no record.

        Raises:
            ValueError: the record is not a length and a step.
        """
        said = about.get(SAID)
        if said is None:
            return None
        values = [said.get(name) for name in cls._fields] if isinstance(said, dict) else [None]
        if not all(type(x) in (int, float) and 0 < x < math.inf for x in values):
            raise ValueError(f'{SAID} must be a length and a step in seconds, not {str(said)[:80]}')
        return cls(*map(float, values))

    def about(self) -> dict[str, Any]:
        """Return the record that :meth:`of` reads."""
        return {SAID: self._asdict()}


def sliding(begin: float, end: float, length: float, step: float) -> list[tuple[float, float]]:
    """Return start and end, in seconds, of windows over a video; the last ends with the video.

    Args:
        begin, end: begin and end of the video.
        length: length of a window; a shorter video is one window.
        step: distance between two starts.

    Raises:
        ValueError: a length or step that is not positive, an end that is not after the begin, more
            than :data:`MOST` windows.
    """
    if not (length > 0 and step > 0 and end > begin):
        raise ValueError(f'no windows of {length} s, one every {step} s, from {begin} to {end} s')
    count = max(0, int(np.ceil((end - begin - length) / step - 1e-9)))
    if count >= MOST:
        raise ValueError(f'{end - begin:.0f} s are more than {MOST} windows, one every {step} s')
    spans = [(begin + step * i, begin + step * i + length) for i in range(count)]
    return [*spans, (max(begin, end - length), end)]


def rows_of_windows(
    owners: Sequence[Item], windows: Mapping[str, Windows], types: Sequence[str], dim: int
) -> dict[str, Any]:
    """Return the rows of windows to add: vectors, and columns of their items.

    Args:
        owners: the items.
        windows: windows of each item, by id.
        types: names of the items' metadata columns.
        dim: D of the vectors.

    Raises:
        ValueError: no windows, one without a start or end, vectors of another width or number, a
            column of the gallery with a reserved name.
    """
    if {OWNER, ENTRY} & set(types):
        raise ValueError(
            f'rename the columns {OWNER} and {ENTRY}: a gallery with moments uses these names'
        )
    rows, vectors = [], []
    for owner in owners:
        starts, ends, given = windows[owner.id]
        spans = list(zip(starts, ends))
        if not len(starts) or len(starts) != len(ends) or None in [*starts, *ends]:
            raise ValueError(f'{owner.id!r}: one window or more expected, each with start and end')
        vectors.append(checked_vectors(given, dim, what=f'of {owner.id!r}'))
        if len(vectors[-1]) != len(spans):
            raise ValueError(f'{owner.id!r}: expected one vector per window')
        rows += [(owner, number, *span) for number, span in enumerate(spans)]
    metadata = {name: [row[0].metadata.get(name) for row in rows] for name in types}
    metadata[OWNER] = [owner.id for owner, *_ in rows]
    metadata[ENTRY] = [owner.added for owner, *_ in rows]
    return dict(
        ids=[_name(owner, number) for owner, number, *_ in rows],
        vectors=np.concatenate(vectors),
        paths=[owner.path for owner, *_ in rows],
        sigmas=[owner.sigma for owner, *_ in rows],
        starts=[start for *_, start, _ in rows],
        ends=[end for *_, end in rows],
        metadata=metadata,
    )


def _name(owner: Item, number: int) -> str:
    """Return the id of a window, which has the same length for any item id."""
    entry = hashlib.sha256(f'{owner.added!r} {owner.id}'.encode()).hexdigest()[:32]
    return f'{entry}-{number}'
