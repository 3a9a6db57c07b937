"""Refits: computing new biases for the items of a store, and restoring the previous ones."""

from __future__ import annotations

import logging
import time
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional, Union

import numpy as np
import torch
from mmengine.logging import print_log
from torch import Tensor

from mmvtr.arrays import Debiaser
from mmvtr.arrays.inputs import read_bank, read_vectors, unpaired_bank
from mmvtr.arrays.topk_fitting import fit_topk_probabilities
from mmvtr.functional.transforms.transform import renamed
from mmvtr.functional.transforms.transform_table import (
    ADDITIVE,
    TRANSFORMS,
    checked_options,
    transform_named,
)
from mmvtr_gallery.store.calibrated import DEPTH
from mmvtr_gallery.store.moved import Moved, Moves
from mmvtr_gallery.store.undoing import Change

Vectors = Union[Tensor, np.ndarray]

#: Number of items for which a refit computes row biases; column biases are computed for all items.
SAMPLE = 100_000


class Fit(NamedTuple):
    """What determines the items' biases, now or before the last refit.

    Attributes:
        debiaser: the Debiaser without its gallery; None: there are no biases.
        refit: options of the refit; None: there was no refit.
        calibration: calibration of the scores with these biases, as a dict; None: there is none.
    """

    debiaser: Optional[Debiaser]
    refit: Optional[dict[str, Any]]
    calibration: Optional[dict[str, Any]] = None


class Refits:
    """The part of :class:`~mmvtr_gallery.store.protocol.GalleryStore` that computes biases."""

    def refit(
        self,
        queries: Optional[Vectors] = None,
        *,
        items: Optional[Vectors] = None,
        transform: Optional[str] = 'same',
        sample: int = SAMPLE,
        seed: int = 0,
        device: Union[str, torch.device] = 'cpu',
        model: Optional[str] = None,
        fewer: bool = False,
        paired: bool = False,
        probabilities: bool = False,
        **options: Any,
    ) -> Moved:
        """Compute new biases for all items; readers see either the old or the new ones.

        A bias measures how often the queries would find an item, so it is only as good as the
        queries' coverage of the items.  There must be at least as many texts as items; the sample
        of served queries must be full or have as many.  With fewer queries the ranks of items that
        few of them concern are random.

        A calibration of the old scores is removed, with a warning.

        Args:
            queries: float [K, D], the bank; None: the sample of served queries.
            items: for a transform that needs them: float [M, D], items seen before, such as the
                videos of the bank's texts; None: those of the last refit.
            transform: ``'auto'`` (:func:`mmvtr.arrays.choose`, on pairs if ``paired``); a name of
                an additive transform, which has one number per item; None: remove all biases;
                ``'same'``: that of the last refit, initially Sinkhorn.
            sample: number of items, drawn by ``seed``, to fit on, or all if there are fewer.  With
                DBSN subsample ``items`` by the same factor.
            device: device for the computation.
            model: see :meth:`add`.
            fewer: accept fewer queries than required.
            paired: row i of ``queries`` and ``items`` is one pair.
            probabilities: given pairs, calibrate the probability that a place of a list is right
                (:meth:`p_match`), if there are biases.
            **options: options of the transform; None = as in its last refit, initially the default.

        Returns:
            How much the ranking has changed.

        Raises:
            ValueError: a transform without the items that it needs, an empty store or bank, a bank
                of another model or width or with too few queries, a temperature that gives biases
                that are not finite, invalid options.
            PermissionError, OSError: see :meth:`add`.
        """
        self._check_writable()
        self._check_model(model)
        with self._changing:
            if transform is None:
                told = dict(self.last_refit or {}, transform=None)
                return self._switched(Fit(None, told), _none)
            asked, options = self._options(transform, options)
            self._check_pairs(asked, queries, items, paired, probabilities)
            queries_, seen = self._bank(queries, fewer), self._seen(items, asked, paired)
            given = torch.from_numpy(queries_), seen
            how = self.dim, self.geometry
            bank = read_bank(given, *how) if paired else unpaired_bank(*given, *how)
            found = Debiaser(asked, geometry=self.geometry, **options)
            found.fit(torch.from_numpy(self._sampled(sample, seed)), bank.to(device))
            told: dict[str, Any] = dict(num_queries=bank.given, online=queries is None)
            told.update(items=self.count(), at=time.time())
            if asked == 'auto':
                told['asked'] = asked
            if found.transform_ is None:
                lost = '; probabilities of lists are kept of biases alone' if probabilities else ''
                print_log(f'{self}: {found.why_}{lost}', 'current', logging.WARNING)
                return self._switched(Fit(None, dict(transform=None, **told)), _none)
            if probabilities:
                every = read_vectors(self._sampled(self.count(), seed), 'videos', self.geometry)
                found.keep(fit_topk_probabilities(bank, every, found._state.fitted, depth=DEPTH))
            numbers = {k: x for k, x in found.options_.items() if type(x) in (int, float)}
            told = dict(transform=found.transform_, **numbers, **told)
            return self._switched(Fit(found.without_gallery(), told), self._anew(found, device))

    def _undo_refit(self, undone: bool) -> Moved:
        """Restore the biases before the last refit; see :meth:`GalleryStore.undo`."""
        before = self._before
        if before is None:
            raise ValueError(f'{self} has no refit to undo')
        new = _none if before.debiaser is None else self._anew(before.debiaser, 'cpu')
        return self._switched(before, new, undone)

    def _options(self, transform: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the transform and its options; options not given are those of its last refit."""
        last = self.last_refit or {}
        if transform == 'same':
            transform = last.get('asked') or last.get('transform') or ADDITIVE[0]
        given = {name: x for name, x in given.items() if x is not None}
        if transform == 'auto':
            return transform, given
        transform_named(transform, ADDITIVE)
        if 'bank_marginals' in given:
            raise ValueError('refit: a store keeps numbers, so bank_marginals cannot be given')
        before = options_of(last) if last.get('transform') == transform else {}
        options = {**before, **given}
        checked_options(transform, options)
        return transform, options

    def _bank(self, queries: Optional[Vectors], fewer: bool) -> np.ndarray:
        """Return the queries of a refit, after checking their number; see :meth:`refit`."""
        count = self.count()
        if queries is not None:
            bank = self.checked(queries, what='refit')
            found, needed = len(np.unique(bank.round(4), axis=0)), count
        elif self.online is not None and len(self.online):
            bank = self.online.queries()
            found, needed = len(bank), min(count, self.online.capacity)
        else:
            raise ValueError(
                'refit: no texts or vectors were given, and the store keeps none of the queries '
                'that it has served'
            )
        if not count:
            raise ValueError('refit: the store is empty')
        if found < needed and not fewer:
            raise ValueError(
                f'refit: {found} different queries are too few for {count} items, {needed} or more '
                'expected: items that few queries speak of would get biases by chance; give more '
                'queries, or allow fewer (the option "fewer")'
            )
        return bank

    def _check_pairs(
        self, transform: str, queries: Any, items: Any, paired: bool, probabilities: bool
    ) -> None:
        if paired and (queries is None or items is None):
            raise ValueError(
                'refit: paired=True needs queries and items; row i of both is one pair'
            )
        if probabilities and not paired:
            raise ValueError('refit: probabilities=True reads pairs: give items= and paired=True')
        if transform == 'auto' and items is not None and not paired:
            raise ValueError(
                "refit: 'auto' reads items as pairs: set paired=True, if row i of both is one pair"
            )

    def _seen(self, items: Optional[Vectors], transform: str, paired: bool) -> Optional[Tensor]:
        """Return the items seen before, given or of the last refit; None: not needed."""
        spec = TRANSFORMS.get(transform)  # None: 'auto'
        reads = spec is not None and spec.reads_items
        if items is not None:
            if not reads and not paired:
                raise ValueError(f'refit: {transform} reads no items seen before, but got some')
            return torch.from_numpy(self.checked(items, what='refit'))
        if not reads:
            return None
        last = self.debiaser
        if last is None or last.bank_.items is None:
            raise ValueError(
                f'refit: {transform} also reads items seen before, such as the videos of the '
                f'bank, and the gallery keeps none: name another transform, such as '
                f'{ADDITIVE[0]!r}, or give such items (items= in Python)'
            )
        return last.bank_.items

    def _sampled(self, most: int, seed: int) -> np.ndarray:
        """Return items drawn without replacement, float32 [min(N, most), D]."""
        count = self.count()
        chosen = np.ones(count, dtype=bool)
        if count > most:
            chosen[:] = False
            chosen[np.random.default_rng(seed).choice(count, most, replace=False)] = True
        parts, start = [], 0
        for _, vectors, _ in self._batches():
            parts.append(vectors[chosen[start : start + len(vectors)]])
            start += len(vectors)
        return np.concatenate(parts)

    def _anew(
        self, debiaser: Debiaser, device: Union[str, torch.device]
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function that computes biases, float32 [n], of vectors, float32 [n, D]."""
        there = debiaser.without_gallery(device)
        return lambda vectors: there.biases_of(vectors).float().cpu().numpy()

    def _switched(
        self, fit: Fit, anew: Callable[[np.ndarray], np.ndarray], undone: bool = False
    ) -> Moved:
        """Set all biases to those of ``anew``; return how much that changes the ranking."""
        asked = self.debiaser if fit.debiaser is None else fit.debiaser
        moves = Moves(None if asked is None else asked.bank_.texts.numpy())

        def biases() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for keys, vectors, old in self._batches():
                new = anew(vectors)
                if not np.isfinite(new).all():
                    raise ValueError(
                        f'refit: {options_of(fit.refit)} give biases that are not finite: take a '
                        'larger temperature'
                    )
                moves.see(vectors, old, new)
                yield keys, new

        kept = self._calibration_after(fit)
        lost = kept is None and self._calibration is not None
        self._switch(fit._replace(calibration=kept), biases(), Change('refit', undone=undone))
        if lost:
            print_log(
                f'{self}: the calibration belonged to the previous scores, and is gone with them: '
                'fit one to the new scores',
                'current',
                logging.WARNING,
            )
        return moves.told()


def options_of(refit: Mapping[str, Any]) -> dict[str, Any]:
    """Return the transform's options from a stored refit."""
    if refit.get('transform') is None:
        return {}
    stored = renamed(refit)
    known = TRANSFORMS[refit['transform']].options
    return {name: stored[name] for name in known if stored.get(name) is not None}


def _none(vectors: np.ndarray) -> np.ndarray:
    """Return zeros as biases."""
    return np.zeros(len(vectors), np.float32)
