"""Search of a Debiaser's state: ranking, P(right), comparison with the bank's queries."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Optional

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays.hubs import suspects
from mmvtr.arrays.inputs import Vectors, score_tiles
from mmvtr.arrays.ranking import Ranked, ranked
from mmvtr.arrays.retrieved import Array, Hubs, Retrieved
from mmvtr.arrays.shift import DEPTH, FEWEST_QUERIES, figures, shift_of
from mmvtr.arrays.state import State
from mmvtr.functional.similarities.distinct import asked_before
from mmvtr.functional.transforms.item_biases import ItemBiases
from mmvtr.functional.uncertainty.calibration import Calibration

#: Queries that are scored at a time.
QUERIES = 1024


def search(
    state: State,
    queries: Tensor,
    k: int,
    calibration: Optional[Calibration],
    strict: bool,
    bank_figures: Callable[[State], Tensor],
    back: Callable[[Tensor], Array],
) -> Retrieved:
    """Return the k best items of each query.

    Args:
        state: with its gallery.
        queries: float [Q, ...], unit vectors or tokens.
        k, calibration, strict: see :meth:`mmvtr.arrays.Debiaser.search`.
        bank_figures: returns what the bank's texts find in the gallery, float64 [m, 3].
        back: converts results to the type of the texts.

    Raises:
        ValueError: ``strict`` queries that are noticed not to be like the bank's.
    """
    gallery, ids, bank, fitted, of_lists = state[:5]
    fit = calibration or of_lists
    by_temperature = getattr(fit, 'method', 'temperature') == 'temperature'
    temperature = fit.temperature if fit is not None and by_temperature else None
    compared = of_lists is not None and of_lists.asked is not None
    compared = compared and len(queries) >= FEWEST_QUERIES and len(gallery) >= DEPTH
    every = (score_tiles(part, gallery) for part in queries.split(QUERIES))
    deep = max(k, DEPTH) if compared else k
    parts = [ranked(tiles, fitted, deep, temperature) for tiles in every]
    best = Ranked(*map(torch.cat, zip(*parts)))
    shift = None
    if compared:
        shift = shift_of(queries, figures(best.raw_scores[:, :DEPTH]), bank_figures(state))
    unlike = str(shift) if shift is not None and shift.noticed else ''
    if strict and unlike:
        raise ValueError(unlike)
    places, debiased = best.places[:, :k].cpu(), best.debiased[:, :k]
    look, repeated = None, ''
    if bank is not None:
        look = partial(suspects, Vectors.of(bank.texts, gallery.geometry), gallery, ids)
        repeated = asked_before(bank.texts, queries, 'texts that ask')
    right = any_right = None
    if calibration is not None:
        size = dict(log_sums=best.log_sums, candidates=len(gallery))
        right = calibration.probabilities(debiased, **size)
    elif of_lists is not None:
        right, any_right = of_lists.places(debiased, best.log_sums)
    return Retrieved(
        ids=_named(ids, places, back),
        scores=back(best.scores[:, :k]),
        debiased=back(debiased),
        probabilities=None if right is None else back(right),
        any_right=None if any_right is None else back(any_right),
        hubs=Hubs((best.raw_places[:, :k].cpu(), places), len(gallery), look),
        transform=None if fitted is None else fitted.transform,
        options={} if fitted is None else dict(fitted.options),
        why='; '.join(filter(None, [state.said, repeated, unlike])),
        shift=shift,
    )


def checked_k(k: Any) -> int:
    """Return the length of lists as an int.

    Raises:
        ValueError: it is not an integer of 1 or more.

    Example:
        ::

            >>> checked_k(np.int64(2))
            2
    """
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ValueError(f'k must be an integer of 1 or more, not {str(k)[:80]!r}')
    return int(k)


def check_calibration(calibration: Any, fitted: Optional[ItemBiases]) -> None:
    """Raise unless a calibration is one of the scores that rank."""
    if calibration is None:
        return
    if not isinstance(calibration, Calibration):
        raise TypeError(f'calibration must be a Calibration, not {type(calibration).__name__}')
    if calibration.debiased != (fitted is not None):
        fitted_on = 'debiased' if calibration.debiased else 'raw'
        ranks = 'raw scores' if fitted is None else fitted.transform
        raise ValueError(
            f'the calibration is for {fitted_on} scores, but these are ranked by {ranks}: '
            'calibrate() the fitted Debiaser, or fit a calibration to what ranks'
        )


def _named(ids: Optional[np.ndarray], places: Tensor, back: Callable[[Tensor], Array]) -> Any:
    if ids is None:
        return back(places)
    named = ids[places.numpy()]
    if named.dtype == object or back(places) is not places:
        return named
    return torch.from_numpy(named)
