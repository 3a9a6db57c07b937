"""A calibration that is kept beside the biases: what gives hits their P(match)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Optional, Sequence

import torch

from mmvtr.functional.uncertainty.calibration import Calibration

if TYPE_CHECKING:
    from mmvtr_gallery.store.items import Hit


class Calibrated(ABC):
    """The part of :class:`~mmvtr_gallery.store.protocol.GalleryStore` that says P(match)."""

    @property
    def calibration(self) -> Optional[Calibration]:
        """What makes P(match) of scores; None: the store has none."""
        return stored_calibration(self._calibration)

    def calibrate(self, calibration: Optional[Calibration]) -> None:
        """Keep a calibration, in the place of the one that is there; None: none any more.

        Args:
            calibration: fitted on raw scores of the store's model, or on those with the biases that
                the store has now (``debiased``).

        Raises:
            TypeError: it is none.
            ValueError: of debiased scores, and the store has no biases; a temperature, which reads
                the scores of all items where a search makes those of its hits.
            PermissionError, OSError: as :meth:`add`.
        """
        self._check_writable()
        with self._changing:
            if calibration is not None:
                check_calibration(calibration, biased=self.debiaser is not None)
            self._keep_calibration(None if calibration is None else calibration.to_dict())

    def p_match(self, hits: Sequence[Hit]) -> Optional[list[float]]:
        """P(match) of hits, in [0, 1], whatever they were ranked by; None without a calibration.

        Of a calibration that knows among how many items one matched, in the store's size.
        """
        fit = self.calibration
        if fit is None:
            return None
        scores = torch.tensor([calibrated_score(fit, hit) for hit in hits], dtype=torch.float64)
        return fit.probabilities(scores, candidates=self.count()).tolist()

    def p_match_of(self, score: float) -> Optional[float]:
        """P(match) of a score that the calibration reads; None without a calibration."""
        fit = self.calibration
        if fit is None:
            return None
        scores = torch.tensor([score], dtype=torch.float64)
        return fit.probabilities(scores, candidates=self.count()).item()

    def threshold(self, precision: float) -> float:
        """From which score on a wanted share of hits matches; infinite if an isotonic fit has none.

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

    def accepted(self, hits: Sequence[Hit], precision: float) -> list[Hit]:
        """The hits up to the last one that reaches :meth:`threshold`.

        Ranked by what the calibration reads, all of them do; by other scores some may not.

        Raises:
            ValueError: see :meth:`threshold`.
        """
        least, fit = self.threshold(precision), self.calibration
        good = [rank for rank, hit in enumerate(hits, 1) if calibrated_score(fit, hit) >= least]
        return list(hits[: good[-1]]) if good else []

    def _calibration_after(self, of_new: Optional[dict[str, Any]]) -> Optional[dict[str, Any]]:
        """What is kept when the biases change: what is of raw scores, else that of the new ones."""
        now = self._calibration
        return of_new if now is None or now['debiased'] else now

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
    """See that a store can keep a calibration.

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


def stored_calibration(value: Optional[dict[str, Any]]) -> Optional[Calibration]:
    """A calibration of what a store keeps; None of None.

    Raises:
        ValueError: it is none that a store can keep.
    """
    if value is None:
        return None
    found = Calibration.from_dict(value)
    check_calibration(found, biased=True)
    return found
