"""Data types of queries, answers and new items."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from mmvtr_gallery.serving.sampling import unit
from mmvtr_gallery.store import Hit
from mmvtr_gallery.store.moments import BestWindow

#: Search depth in the other ranking (with or without biases), to look up each hit's rank there.
DEPTH = 100

#: Hits of a search that does not say how many.
HITS = 12


class Empty(ValueError):
    """The gallery is empty."""


class InQuarantine(LookupError):
    """The file of a quarantined item was requested without the token."""


class Cut(NamedTuple):
    """Token counts of a text longer than the model reads, including begin and end tokens.

    Attributes:
        read: tokens that the model was given.
        of: tokens of the whole text.
    """

    read: int
    of: int


class Query(NamedTuple):
    """A query, encoded.

    Attributes:
        vector: float32 [D].
        sigma: uncertainty of a text, for a probabilistic model.
        text: the text; None: the query is a vector, a video or an item.
        cut: set if the model has not read the whole text.
        scaled: whether the vector was scaled to length 1.
    """

    vector: np.ndarray
    sigma: Optional[float] = None
    text: Optional[str] = None
    cut: Optional[Cut] = None
    scaled: bool = False

    @classmethod
    def of(cls, vector: Sequence[float], *, scale: bool) -> 'Query':
        """Return the query of a user's vector.

        Args:
            vector: D numbers.
            scale: bring it to length 1.

        Raises:
            ValueError: an entry is not finite, or all are zero.
        """
        found = unit(vector)
        with np.errstate(over='ignore'):  # entries that overflow float32 have been scaled
            given = np.asarray(vector, np.float32)
        if not scale:
            return cls(given)
        return cls(found, scaled=not np.array_equal(found, given))


class Answer(NamedTuple):
    """The hits of a query.

    Attributes:
        hits: best first.
        transform: whether they are ranked with biases.
        moved: rank of each hit in the other ranking, with biases or without; None: it is not among
            the first :data:`DEPTH` there.
        count: number of items in the gallery.
        p_match: probability that each hit matches; None: not requested, or not calibrated.
        threshold: score above which the wanted share matches; None: there is none, or not
            requested.
        threshold_p_match: P(match) at the threshold.
        windows: best window of each hit; None: it has none, or the gallery has none at all.
        note: why P(match) may be too high, or no threshold is there; None: nothing to say.
    """

    hits: list[Hit]
    transform: bool
    moved: Optional[list[Optional[int]]]
    count: int
    p_match: Optional[list[float]] = None
    threshold: Optional[float] = None
    threshold_p_match: Optional[float] = None
    windows: Sequence[Optional[BestWindow]] = ()
    note: Optional[str] = None


class NewItem(NamedTuple):
    """An item to add: a file of the library, a vector, or both."""

    id: str
    file: Optional[str] = None
    vector: Optional[Sequence[float]] = None
    start: Optional[float] = None
    end: Optional[float] = None
    metadata: Mapping[str, Any] = {}
