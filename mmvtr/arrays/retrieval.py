"""Two arrays, one call: which videos answer each text."""

from __future__ import annotations

import dataclasses
from functools import cached_property, partial
from typing import Any, Callable, Optional, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays.biases import NAMES, Biases, biases_of
from mmvtr.arrays.choice import Choice, choose
from mmvtr.arrays.hubs import Suspect, suspects
from mmvtr.arrays.inputs import (
    Bank,
    Vectors,
    check_width,
    cosines,
    products,
    read_bank,
    read_ids,
    read_vectors,
)
from mmvtr.arrays.lists import best, log_sums_of
from mmvtr.functional.metrics.hubness import skewness
from mmvtr.functional.similarities.tiles import Tiles
from mmvtr.functional.transforms.transform_table import TRANSFORMS
from mmvtr.functional.uncertainty.calibration import Calibration

Array = Union[np.ndarray, Tensor]
#: Queries whose scores are made at a time.
QUERIES = 1024


@dataclasses.dataclass(frozen=True)
class Hubs:
    """How unevenly the gallery is found, in the lists of k before and after the transform.

    Attributes:
        raw, debiased: skewness of how many lists an item is in; 0 = even, above 1.5 hubs.
        most_raw, most_debiased: in how many lists the item is that is in most.
        never_raw, never_debiased: share of the items that no list has, in [0, 1].
        look: finds the suspects, with the bank and the gallery as they are then; None without a
            bank.
    """

    raw: float
    debiased: float
    most_raw: int
    most_debiased: int
    never_raw: float
    never_debiased: float
    look: Optional[Callable[[], list[Suspect]]] = dataclasses.field(repr=False, compare=False)

    @cached_property
    def suspects(self) -> Optional[list[Suspect]]:
        """Items that look made to be found, by the bank's queries and raw scores
        (:func:`mmvtr.hub_report`); None without a bank.  They are looked for when first read."""
        return None if self.look is None else self.look()


@dataclasses.dataclass(frozen=True)
class Retrieved:
    """The k best videos of each of Q texts, best first.  Arrays are of the texts' kind.

    Attributes:
        ids: [Q, k], those that were given (numpy where they are no integers), or row numbers.
        scores: float32 [Q, k], cosines.
        debiased: float32 [Q, k], what the order is by: cosines and the biases of the items.
        probabilities: float64 [Q, k], P(match), or None without a calibration.
        hubs: what the transform did to hubs.
        transform: its name; None = raw.
        options: of it.
        why: a sentence that says what was chosen and why.
    """

    ids: Any
    scores: Array
    debiased: Array
    probabilities: Optional[Array]
    hubs: Hubs
    transform: Optional[str]
    options: dict[str, Any]
    why: str


@torch.no_grad()
def retrieve(
    texts: Array,
    videos: Array,
    bank: Any = None,
    transform: Optional[str] = 'auto',
    k: int = 10,
    ids: Any = None,
    *,
    calibration: Optional[Calibration] = None,
    **options: Any,
) -> Retrieved:
    """The best videos of each text by cosine, without hubs where a bank tells them.

    Any embeddings will do; for videos that ask for texts, swap the two.  Scores are made a tile at
    a time: beside the arrays, memory is that of the bank's and of 1,024 texts' vectors, and of some
    tiles of 16 MiB.

    A temperature divides scores, so what fits one model's cosines fits no other's.  It is given as
    ``reach``, a share of how far a query's best score lies above its mean: .2 by default; smaller
    is sharper, and holds hubs back harder.

    Args:
        texts: numpy or torch, [Q, D], of any length but 0.
        videos: [N, D], may be memory-mapped.
        bank: queries seen before, [B, D]; or ``(bank_texts, bank_videos)``, row i of both one pair.
            Training captions are one; those that ask now are none (transductive).
        transform: ``'auto'`` (:func:`mmvtr.arrays.choose`, by the bank alone), None = raw, or one
            of ``sinkhorn``, ``unbalanced_sinkhorn``, ``inverted_softmax``, ``qb_norm``, ``csls``,
            ``local_scaling``, ``nnn``, ``dbsn``, ``db_norm``: the functions of
            :mod:`mmvtr.functional` with the bank; the last two read its videos too.
        k: videos a text; all if there are fewer.
        ids: of the videos, one each.
        calibration: gives P(match), fitted on cosines, or on ``debiased`` ones.
        **options: of the transform: ``reach`` or ``temperature``, ``strictness``, ``k`` as
            ``neighbours`` (of ``csls``, ``nnn`` and ``qb_norm``), ``strength`` ...

    Raises:
        TypeError: arrays that are neither numpy nor torch, a calibration that is none.
        ValueError: arrays of another width, empty, with NaN or a zero vector; an empty bank, or one
            of videos only; ids that do not fit; ``k`` below 1; an unknown transform or option; a
            transform without a bank.

    Example:
        ::

            >>> import numpy as np, mmvtr
            >>> texts, videos = np.eye(3, dtype='float32')[:2], np.eye(3, dtype='float32')
            >>> mmvtr.retrieve(texts, videos, k=1, ids=['cat', 'dog', 'owl']).ids.tolist()
            [['cat'], ['dog']]
    """
    queries, gallery = read_vectors(texts, 'texts'), read_vectors(videos, 'videos')
    check_width(gallery, texts.shape[1], 'videos')
    named = read_ids(ids, len(gallery))
    known = None if bank is None else read_bank(bank, texts.shape[1])
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ValueError(f'k must be an integer of 1 or more, not {str(k)[:80]!r}')
    if calibration is not None and not isinstance(calibration, Calibration):
        raise TypeError(f'calibration must be a Calibration, not {type(calibration).__name__}')
    chosen = _chosen(transform, options, known, gallery)
    tiles = None if known is None else cosines(known.queries, gallery, 'bank')
    biases = None if chosen.transform is None else _biases(chosen, tiles, known, gallery)
    if calibration is not None and calibration.debiased and biases is None:
        raise ValueError('the calibration is of debiased scores, but no transform was chosen')
    parts = [
        _ranked(queries.unit(slice(start, start + QUERIES)), gallery, biases, int(k), calibration)
        for start in range(0, len(queries), QUERIES)
    ]
    raw, places, scores, debiased, log_sums = (torch.cat(x) for x in zip(*parts))
    look = None if known is None else partial(suspects, known.queries, gallery, named)
    p = None
    if calibration is not None:
        read = debiased if calibration.debiased else scores
        p = calibration.probabilities(read, log_sums=log_sums, candidates=len(gallery))
    like = _as_numpy if isinstance(texts, np.ndarray) else (lambda x: x)
    return Retrieved(
        ids=_named(places, named, like),
        scores=like(scores),
        debiased=like(debiased),
        probabilities=None if p is None else like(p),
        hubs=_hubs(raw, places, len(gallery), look),
        transform=chosen.transform,
        options=chosen.options,
        why=chosen.why,
    )


def _chosen(transform: Any, options: dict, bank: Any, gallery: Vectors) -> Choice:
    if transform in ('auto', None):
        if options:
            raise ValueError(f'{sorted(options)[0]!r} is of a transform: name one of {NAMES}')
        if transform is None:
            return Choice(None, {}, 'raw: as asked')
        return choose(bank, gallery)
    if transform not in NAMES:
        raise ValueError(
            f"transform must be 'auto', None or one of {NAMES}, not {str(transform)[:80]!r}"
        )
    if bank is None:
        raise ValueError(f'{transform} needs a bank: queries seen before, [B, {_width(gallery)}]')
    return Choice(transform, options, f'{transform}: as asked')


def _width(vectors: Vectors) -> int:
    return vectors.array.shape[1]


def _biases(chosen: Choice, tiles: Tiles, known: Bank, gallery: Vectors) -> Biases:
    beside: dict[str, Tiles] = {}
    reads = TRANSFORMS[chosen.transform].reads
    if known.own is not None and 'bank_gallery' in reads:
        beside['bank_gallery'] = cosines(known.queries, known.own, 'bank_gallery')
    if known.own is not None and 'item_bank' in reads:
        beside['item_bank'] = cosines(known.own, gallery, 'item_bank')
    return biases_of(chosen.transform, tiles, beside=beside, **chosen.options)


def _ranked(
    queries: Tensor,
    gallery: Vectors,
    biases: Optional[Biases],
    k: int,
    calibration: Optional[Calibration],
) -> tuple[Tensor, ...]:
    """Of some queries: raw places [q, k]; places, scores, debiased [q, k]; log sums [q]."""
    tiles = Tiles.of(
        (len(queries), len(gallery)), lambda part: products(queries, gallery.unit(part))
    )
    zero = queries.new_zeros(len(gallery))
    raw = best(tiles, k)
    found = raw
    added, gate = zero, None
    if biases is not None:
        added = biases.items.to(queries)
        if biases.active is not None:
            gate = biases.active.to(queries.device)[raw[1][:, 0]].to(queries)
        found = best(tiles, k, added, gate)
    debiased, places = found
    shift = added[places] if gate is None else added[places] * gate[:, None]
    if calibration is None or calibration.method != 'temperature':
        return raw[1], places, debiased - shift, debiased, queries.new_zeros(len(queries))
    own = (added, gate) if calibration.debiased else (zero, None)
    log_sums = log_sums_of(tiles, calibration.temperature, *own)
    return raw[1], places, debiased - shift, debiased, log_sums


def _hubs(
    raw: Tensor, debiased: Tensor, items: int, look: Optional[Callable[[], list[Suspect]]]
) -> Hubs:
    counts = [torch.bincount(x.flatten(), minlength=items) for x in (raw, debiased)]
    values = (
        [skewness(x).item() for x in counts],
        [int(x.max()) for x in counts],
        [(x == 0).double().mean().item() for x in counts],
    )
    return Hubs(*(one for pair in values for one in pair), look)


def _named(places: Tensor, named: Optional[np.ndarray], like: Any) -> Any:
    if named is None:
        return like(places)
    found = named[places.cpu().numpy()]
    if found.dtype == object or like is _as_numpy:
        return found
    return torch.from_numpy(found).to(places.device)


def _as_numpy(x: Tensor) -> np.ndarray:
    return x.cpu().numpy()
