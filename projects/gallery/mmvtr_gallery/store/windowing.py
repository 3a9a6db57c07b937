"""Windows over a video: where they begin and end, and the rows of a store that they become."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from mmvtr_gallery.store.items import Item, checked_vectors
from mmvtr_gallery.store.refits import Vectors

#: Columns of a window that say whose it is: id of its item, and when that was added.
OWNER, ENTRY = 'of_item', 'of_added'
#: Under which name a store of windows says in ``about`` how they were cut.
SAID = 'windows'
#: Windows of one video.
MOST = 100_000
#: Why videos that come later get none.
NOT_NOTED = 'the gallery does not say how its windows were cut (export_index.py --windows does)'


class Windows(NamedTuple):
    """W windows of one item, 1 or more.

    Attributes:
        starts, ends: seconds of the file, [W].
        vectors: float [W, D], of the model that made the items' vectors.
    """

    starts: Sequence[float]
    ends: Sequence[float]
    vectors: Vectors


class Windowing(NamedTuple):
    """How a video is cut into windows; their frames are sampled as those of a video.

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
            ValueError: it says something else than a length and a step.
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
    """Starts and ends of windows over a video, in seconds; the last one ends with the video.

    Args:
        begin, end: of the video.
        length: of a window; a shorter video is one window.
        step: from one start to the next.

    Raises:
        ValueError: a length or step that is not positive, an end that is not behind the begin, more
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
        windows: those of each, by id.
        types: columns of the items' metadata, by name.
        dim: D of the vectors.

    Raises:
        ValueError: no windows, one without a start or end, vectors of another width or number, a
            column of the gallery that is called like ours.
    """
    if {OWNER, ENTRY} & set(types):
        raise ValueError(f'no column of a gallery with moments is called {OWNER} or {ENTRY}')
    rows, vectors = [], []
    for owner in owners:
        starts, ends, given = windows[owner.id]
        spans = list(zip(starts, ends))
        if not len(starts) or len(starts) != len(ends) or None in [*starts, *ends]:
            raise ValueError(f'{owner.id!r}: one window or more expected, each with start and end')
        vectors.append(checked_vectors(given, dim, what=f'of {owner.id!r}'))
        if len(vectors[-1]) != len(spans):
            raise ValueError(f'{owner.id!r}: one vector a window expected')
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
    """Id of a window, of one length whatever the item is called."""
    entry = hashlib.sha256(f'{owner.added!r} {owner.id}'.encode()).hexdigest()[:32]
    return f'{entry}-{number}'
