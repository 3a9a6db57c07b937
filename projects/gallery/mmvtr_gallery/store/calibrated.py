"""A calibration that is kept beside the biases: what gives hits their P(match)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Optional, Sequence

import torch

from mmvtr.arrays import ListChances
from mmvtr.functional.uncertainty.calibration import Calibration

if TYPE_CHECKING:
    from mmvtr_gallery.store.items import Hit
    from mmvtr_gallery.store.refits import Fit

#: Best items of a query whose scores say how surely its places are right.
DEPTH = 100


class Calibrated(ABC):
    """The part of :class:`~mmvtr_gallery.store.protocol.GalleryStore` that says P(match)."""

    @property
    def calibration(self) -> Optional[Calibration]:
        """Return the calibration of the ranking scores; None if the store has none."""
        return None if self.raw_calibration else stored_calibration(self._calibration)

    @property
    def raw_calibration(self) -> bool:
        """Whether a store of before keeps a calibration of raw scores beside biases."""
        now = self._calibration
        return now is not None and self.debiaser is not None and not now['debiased']

    @property
    def list_chances(self) -> Optional[ListChances]:
        """How surely places of lists are right; None: a refit with ``chances`` finds it."""
        debiaser = self.debiaser
        return None if debiaser is None else debiaser.calibration_

    def calibrate(self, calibration: Optional[Calibration]) -> None:
        """Keep a calibration, in the place of the one that is there; None: none any more.

        Args:
            calibration: fitted on what ranks: raw scores of the store's model, or those with the
                biases that the store has now (``debiased``).

        Raises:
            TypeError: it is none.
            ValueError: of debiased scores, and the store has no biases, or the other way round; a
                temperature, which reads the scores of all items where a search makes those of its
                hits.
            PermissionError, OSError: as :meth:`add`.
        """
        self._check_writable()
        with self._changing:
            if calibration is not None:
                check_calibration(calibration, biased=self.debiaser is not None)
            self._keep_calibration(None if calibration is None else calibration.to_dict())

    def p_match(self, hits: Sequence[Hit], query: Any = None) -> Optional[list[float]]:
        """P(match) of hits, in [0, 1], None without a calibration.

        Where :attr:`list_chances` are known and the query is given, P that this place of its list,
        of the whole gallery and with biases, is the right one; else that of the hit's score,
        whatever it was ranked by.  Of a calibration that knows among how many items one matched, in
        the store's size.

        Args:
            hits: of one query.
            query: float [D] or [1, D], what has found them by a search with biases and no filter.

        Raises:
            ValueError: hits that are not the first ones of the query's list.
        """
        chances, fit = self.list_chances, self.calibration
        if chances is not None and query is not None:
            return self._of_list(chances, hits, query)
        if fit is None:
            return None
        scores = torch.tensor([calibrated_score(fit, hit) for hit in hits], dtype=torch.float64)
        return fit.probabilities(scores, candidates=self.count()).tolist()

    def _of_list(self, chances: ListChances, hits: Sequence[Hit], query: Any) -> list[float]:
        row = torch.as_tensor(query).reshape(1, -1)
        deep = self.search(row, max(chances.depth, len(hits)), record=False)[0]
        ranked = torch.tensor([[hit.score for hit in deep]], dtype=torch.float64)
        near = [abs(x.score - y.score) < 1e-4 for x, y in zip(hits, deep)]
        if len(deep) < len(hits) or not all(near):  # equal scores may come in another order
            raise ValueError('the hits are not the first of a search with biases and no filter')
        sums = (ranked[:, : chances.depth or None] / chances.temperature).logsumexp(1)
        return chances.places(ranked, sums)[0][0, : len(hits)].tolist()

    def p_match_of(self, score: float) -> Optional[float]:
        """P(match) of a score that the calibration reads; None without a calibration."""
        fit = self.calibration
        if fit is None:
            return None
        scores = torch.tensor([score], dtype=torch.float64)
        return fit.probabilities(scores, candidates=self.count()).item()

    def threshold(self, precision: float) -> float:
        """Return the score from which on a share of hits matches; infinite if there is none.

        It is of raw scores, or of those with biases where the calibration is of them.

        Args:
            precision: the wanted share, in (0, 1).

        Raises:
            ValueError: a precision out of range; a store without a calibration.
        """
        fit = self.calibration
        if fit is None:
            raise ValueError(
                'the gallery has no calibration that says which scores match: keep one in it '
                '(store.calibrate, or mmvtr export_index --calibration)'
            )
        return fit.threshold(precision, candidates=self.count())

    def accepted(self, hits: Sequence[Hit], precision: float, query: Any = None) -> list[Hit]:
        """The hits up to the last one that reaches :meth:`threshold`.

        Ranked by what the calibration reads, all of them do; by other scores some may not.  With
        :attr:`list_chances` and the query, those whose place is right with the probability that
        :meth:`mmvtr.arrays.ListChances.threshold` asks of a first place.

        Raises:
            ValueError: see :meth:`threshold` and :meth:`p_match`.
        """
        chances = self.list_chances
        if chances is not None and query is not None:
            lowest = chances.threshold(precision)
            right = [x >= lowest for x in self._of_list(chances, hits, query)]
            return list(hits[: len(right) - right[::-1].index(True)]) if any(right) else []
        least, fit = self.threshold(precision), self.calibration
        good = [rank for rank, hit in enumerate(hits, 1) if calibrated_score(fit, hit) >= least]
        return list(hits[: good[-1]]) if good else []

    def _calibration_after(self, fit: Fit) -> Optional[dict[str, Any]]:
        """What is kept when the biases change: of raw scores, while there are none, else that of
        the new ones."""
        now, raw = self._calibration, fit.debiaser is None
        return now if raw and now is not None and not now['debiased'] else fit.calibration

    # -- of an engine ------------------------------------------------------------------------

    @property
    @abstractmethod
    def _calibration(self) -> Optional[dict[str, Any]]:
        """As it is kept."""

    @abstractmethod
    def _keep_calibration(self, calibration: Optional[dict[str, Any]]) -> None:
        """Take it in place of the old one, as one change."""


def calibrated_score(calibration: Calibration, hit: Hit) -> float:
    """The score of a hit that a calibration reads."""
    return hit.raw + hit.item.bias if calibration.debiased else hit.raw


def check_calibration(calibration: Any, *, biased: bool) -> None:
    """Raise ValueError if a store cannot keep a calibration.

    Args:
        biased: whether it has biases.

    Raises:
        TypeError, ValueError: see :meth:`Calibrated.calibrate`.
    """
    if not isinstance(calibration, Calibration):
        raise TypeError(f'calibration must be a Calibration, not {type(calibration).__name__}')
    if calibration.method == 'temperature':
        raise ValueError(
            'a temperature reads the scores of all items, but a search makes those of its hits: '
            "fit 'platt' or 'isotonic'"
        )
    if calibration.debiased and not biased:
        raise ValueError('the calibration is of debiased scores, but the gallery has no biases')
    if biased and not calibration.debiased:
        raise ValueError(
            'the calibration is of raw scores, but biases rank the gallery: fit one to scores with '
            'them (debiased=True), or refit with pairs and chances=True'
        )


def stored_calibration(value: Optional[dict[str, Any]]) -> Optional[Calibration]:
    """A calibration of what a store keeps; None of None.

    Raises:
        ValueError: it is none that a store can keep.
    """
    if value is None:
        return None
    found = Calibration.from_dict(value)
    check_calibration(found, biased=found.debiased)
    return found
