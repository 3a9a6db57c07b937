"""The calibration that a store keeps beside its biases, from which hits get their P(match)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Optional, Sequence

import torch

from mmvtr.arrays import Shift, TopKProbabilities
from mmvtr.functional.uncertainty.calibration import Calibration

if TYPE_CHECKING:
    from mmvtr_gallery.store.items import Hit
    from mmvtr_gallery.store.refits import Fit

#: Number of top items of a query whose scores determine the probability that a place is right.
DEPTH = 100


class Calibrated(ABC):
    """The part of :class:`~mmvtr_gallery.store.protocol.GalleryStore` that computes P(match)."""

    @property
    def calibration(self) -> Optional[Calibration]:
        """Return the calibration of the ranking scores; None if the store has none."""
        return None if self.raw_calibration else stored_calibration(self._calibration)

    @property
    def raw_calibration(self) -> bool:
        """Return whether a store of an older version has biases but a calibration of raw scores."""
        now = self._calibration
        return now is not None and self.debiaser is not None and not now['debiased']

    @property
    def topk_probabilities(self) -> Optional[TopKProbabilities]:
        """Return the calibration of list places; None: a refit computes it (``probabilities``)."""
        debiaser = self.debiaser
        return None if debiaser is None else debiaser.calibration_

    def calibrate(self, calibration: Optional[Calibration]) -> None:
        """Store a calibration in place of the current one; None removes it.

        Args:
            calibration: fitted on the scores that rank: raw scores of the store's model, or scores
                with the store's current biases (``debiased``).

        Raises:
            TypeError: it is no Calibration.
            ValueError: it is of debiased scores and the store has no biases, or the other way
                round; it is a temperature, which needs the scores of all items while a search
                computes only those of its hits.
            PermissionError, OSError: see :meth:`add`.
        """
        self._check_writable()
        with self._changing:
            if calibration is not None:
                check_calibration(calibration, biased=self.debiaser is not None)
            self._keep_calibration(None if calibration is None else calibration.to_dict())

    def p_match(
        self, hits: Sequence[Hit], query: Any = None, *, deep: Optional[Sequence[Hit]] = None
    ) -> Optional[list[float]]:
        """Return P(match) of hits, in [0, 1]; None without a calibration.

        If :attr:`topk_probabilities` are known and the query is given, it is the probability that
        this place of its list (over the whole gallery, with biases) is the right one; otherwise
        that of the hit's score, whatever it was ranked by.  A calibration that was fitted for a
        number of candidates is adjusted to the store's size.

        Args:
            hits: hits of one query.
            query: float [D] or [1, D], the query that found them in a search with biases and no
                filter.
            deep: the first ``topk_probabilities.depth`` hits of that search, in place of the query,
                which is searched with again otherwise.

        Raises:
            ValueError: the hits are not the first ones of the query's list.
        """
        probabilities, fit = self.topk_probabilities, self.calibration
        if probabilities is not None and (query is not None or deep is not None):
            return self._of_list(probabilities, hits, query, deep)
        if fit is None:
            return None
        scores = torch.tensor([calibrated_score(fit, hit) for hit in hits], dtype=torch.float64)
        return fit.probabilities(scores, candidates=self.count()).tolist()

    def _of_list(
        self,
        probabilities: TopKProbabilities,
        hits: Sequence[Hit],
        query: Any,
        deep: Optional[Sequence[Hit]] = None,
    ) -> list[float]:
        if deep is None:
            row = torch.as_tensor(query).reshape(1, -1)
            deep = self.search(row, max(probabilities.depth, len(hits)), record=False)[0]
        ranked = torch.tensor([[hit.score for hit in deep]], dtype=torch.float64)
        near = [abs(x.score - y.score) < 1e-4 for x, y in zip(hits, deep)]
        if len(deep) < len(hits) or not all(near):  # tied scores may come in another order
            raise ValueError('the hits are not the first of a search with biases and no filter')
        sums = (ranked[:, : probabilities.depth or None] / probabilities.temperature).logsumexp(1)
        return probabilities.places(ranked, sums)[0][0, : len(hits)].tolist()

    def p_match_of(self, score: float) -> Optional[float]:
        """Return P(match) of a score on the calibration's scale; None without a calibration."""
        fit = self.calibration
        if fit is None:
            return None
        scores = torch.tensor([score], dtype=torch.float64)
        return fit.probabilities(scores, candidates=self.count()).item()

    def threshold(self, precision: float) -> float:
        """Return the score above which a share of hits matches; infinite if there is none.

        It is a raw score, or one with bias if the calibration is for debiased scores.

        Args:
            precision: the wanted share, in (0, 1).

        Raises:
            ValueError: a precision out of range; a store without a calibration.
        """
        fit = self.calibration
        if fit is None:
            raise ValueError(
                'the gallery has no calibration that says which scores match: judge hits and ask '
                '/calibrate, or give one (mmvtr export_index --calibration, store.calibrate)'
            )
        return fit.threshold(precision, candidates=self.count())

    def accepted(
        self,
        hits: Sequence[Hit],
        precision: float,
        query: Any = None,
        *,
        shift: Optional[Shift] = None,
    ) -> list[Hit]:
        """Return the hits up to the last one that reaches :meth:`threshold`.

        If they are ranked by the calibrated scores, all of them reach it; otherwise some may not.
        With :attr:`topk_probabilities` and the query, the threshold is the probability that
        :meth:`mmvtr.arrays.TopKProbabilities.threshold` requires of a first place; it is refused if
        the served queries are not like the bank's (``shift``, :func:`.drift.served_shift`).

        Raises:
            ValueError: see :meth:`threshold` and :meth:`p_match`.
        """
        probabilities = self.topk_probabilities
        if probabilities is not None and query is not None:
            lowest = probabilities.threshold(precision, shift=shift)
            right = [x >= lowest for x in self._of_list(probabilities, hits, query)]
            return list(hits[: len(right) - right[::-1].index(True)]) if any(right) else []
        least, fit = self.threshold(precision), self.calibration
        good = [rank for rank, hit in enumerate(hits, 1) if calibrated_score(fit, hit) >= least]
        return list(hits[: good[-1]]) if good else []

    def _calibration_after(self, fit: Fit) -> Optional[dict[str, Any]]:
        """Return the calibration to keep when the biases change: a raw-score one while there are no
        biases, else the one of the new fit.
        """
        now, raw = self._calibration, fit.debiaser is None
        return now if raw and now is not None and not now['debiased'] else fit.calibration

    # -- of an engine ------------------------------------------------------------------------

    @property
    @abstractmethod
    def _calibration(self) -> Optional[dict[str, Any]]:
        """Return the stored calibration as a dict."""

    @abstractmethod
    def _keep_calibration(self, calibration: Optional[dict[str, Any]]) -> None:
        """Replace the stored calibration, as one change."""


def calibrated_score(calibration: Calibration, hit: Hit) -> float:
    """Return the score of a hit on the calibration's scale, with or without bias."""
    return hit.raw + hit.item.bias if calibration.debiased else hit.raw


def check_calibration(calibration: Any, *, biased: bool) -> None:
    """Raise ValueError if a store cannot keep a calibration.

    Args:
        biased: whether the store has biases.

    Raises:
        TypeError, ValueError: see :meth:`Calibrated.calibrate`.
    """
    if not isinstance(calibration, Calibration):
        raise TypeError(f'calibration must be a Calibration, not {type(calibration).__name__}')
    if calibration.method == 'temperature':
        raise ValueError(
            'a temperature reads the scores of all items, but a search computes only those of its '
            "hits: fit 'platt' or 'isotonic'"
        )
    if calibration.debiased and not biased:
        raise ValueError('the calibration is for debiased scores, but the gallery has no biases')
    if biased and not calibration.debiased:
        raise ValueError(
            'the calibration is for raw scores, but biases rank the gallery: fit one to scores '
            'with them (debiased=True), or refit with pairs and probabilities=True'
        )


def stored_calibration(value: Optional[dict[str, Any]]) -> Optional[Calibration]:
    """Return the calibration from the dict that a store keeps; None for None.

    Raises:
        ValueError: a store cannot keep such a calibration.
    """
    if value is None:
        return None
    found = Calibration.from_dict(value)
    check_calibration(found, biased=found.debiased)
    return found
