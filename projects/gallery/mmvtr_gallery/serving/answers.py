"""What a gallery is asked and given, and what it answers."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from mmvtr_gallery.serving.sampling import unit
from mmvtr_gallery.store import Hit
from mmvtr_gallery.store.moments import BestWindow

#: The other ranking is searched so deep for what it says of a hit.
DEPTH = 100


class Empty(ValueError):
    """There is nothing to search."""


class InQuarantine(LookupError):
    """The file of a quarantined item was requested without the token."""


class Cut(NamedTuple):
    """Tokens of a text that is longer than the model reads, with those at its begin and its end.

    Attributes:
        read: that the model was given.
        of: that the whole text has.
    """

    read: int
    of: int


class Query(NamedTuple):
    """What is searched for.

    Attributes:
        vector: float32 [D].
        sigma: of a text of a probabilistic model.
        text: what it was made of; None: of a vector, a video or an item.
        cut: what of the text the model has not read; None: nothing.
        scaled: whether it was brought to length 1.
    """

    vector: np.ndarray
    sigma: Optional[float] = None
    text: Optional[str] = None
    cut: Optional[Cut] = None
    scaled: bool = False

    @classmethod
    def of(cls, vector: Sequence[float]) -> 'Query':
        """A vector of a user, at length 1.

        Raises:
            ValueError: see :func:`~mmvtr_gallery.serving.sampling.unit`.
        """
        found = unit(vector)
        with np.errstate(over='ignore'):  # what is infinite as float32 has been scaled
            return cls(found, scaled=not np.array_equal(found, np.asarray(vector, np.float32)))


class Answer(NamedTuple):
    """The hits of a query.

    Attributes:
        hits: best first.
        transform: whether biases have ranked them.
        moved: of each its rank in the other ranking, with biases or without; None: it is not among
            the first :data:`DEPTH` there.
        count: items of the gallery.
        p_match: of each the probability that it matches; None: nobody asked, or not calibrated.
        threshold: score from which on the wanted share matches; None: none does, or nobody asked.
        threshold_p_match: P(match) there.
        windows: of each the best window; None: it has none, or the gallery has none at all.
    """

    hits: list[Hit]
    transform: bool
    moved: Optional[list[Optional[int]]]
    count: int
    p_match: Optional[list[float]] = None
    threshold: Optional[float] = None
    threshold_p_match: Optional[float] = None
    windows: Sequence[Optional[BestWindow]] = ()


class NewItem(NamedTuple):
    """What is to be added: a file of the library, a vector, or both."""

    id: str
    file: Optional[str] = None
    vector: Optional[Sequence[float]] = None
    start: Optional[float] = None
    end: Optional[float] = None
    metadata: Mapping[str, Any] = {}
