"""How the items of a store get new biases, and get back those of before."""

from __future__ import annotations

import logging
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional, Union

import numpy as np
import torch
from mmengine.logging import print_log
from torch import Tensor

from mmvtr.arrays import Debiaser
from mmvtr.arrays.inputs import read_bank, read_vectors, unpaired_bank
from mmvtr.arrays.list_chances import fit_chances
from mmvtr.functional.transforms.transform_table import (
    ADDITIVE,
    TRANSFORMS,
    checked_options,
    transform_named,
)
from mmvtr_gallery.store.calibrated import DEPTH
from mmvtr_gallery.store.moved import Moved, Moves

Vectors = Union[Tensor, np.ndarray]

#: Items of which a refit finds the row biases; those of the columns are of all items.
SAMPLE = 100_000


class Fit(NamedTuple):
    """What gives items their biases, now or before the last refit.

    Attributes:
        debiaser: without its gallery; None: there are no biases.
        refit: its options; None: there was no refit.
        calibration: of the scores with these biases, as a dict; None: there is none.
    """

    debiaser: Optional[Debiaser]
    refit: Optional[dict[str, Any]]
    calibration: Optional[dict[str, Any]] = None


class Refits:
    """The part of :class:`~mmvtr_gallery.store.protocol.GalleryStore` that gives biases."""

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
        chances: bool = False,
        **options: Any,
    ) -> Moved:
        """Give all items new biases; vectors stay as they are, and readers see old or new biases.

        A bias says how often the queries would find an item, so it is known no better than these
        queries cover the items. Texts are to be at least as many as the items, the sample of served
        queries is to be full or as many; fewer make the ranking of items that few queries speak of
        a matter of chance.

        A calibration is of the scores of before, and goes, with a warning.

        Args:
            queries: float [K, D], the bank; None: the sample of served queries.
            items: of a transform that reads them: float [M, D], seen before, such as the videos of
                the bank's texts; None: those of the last refit.
            transform: ``'auto'`` (:func:`mmvtr.arrays.choose`, by pairs where ``paired``), a name
                of the table of transforms that is one number for each item, None: no biases any
                more; ``'same'`` as the last refit, at first Sinkhorn.
            sample: items, drawn by ``seed``, that it is fitted on; of fewer items all.  With DBSN
                draw as large a share of ``items``.
            device: where it is computed.
            model: as :meth:`add`.
            fewer: take fewer queries than that nonetheless.
            paired: row i of ``queries`` and ``items`` is one pair.
            chances: of pairs, find how surely each place of a list is right (:meth:`p_match`),
                where biases rank.
            **options: of the transform; None = as the last refit with it, at first the default of
                the table.  A temperature is that of the last refit with any transform, at first the
                export's (``about['temperature']``).

        Returns:
            How far the ranking has moved.

        Raises:
            ValueError: a transform without the items that it reads, an empty store or bank, a bank
                of another model or width or of fewer queries than there must be, a temperature that
                gives biases that are not finite, options that do not fit.
            PermissionError, OSError: as :meth:`add`.
        """
        self._check_writable()
        self._check_model(model)
        with self._changing:
            if transform is None:
                told = dict(self.last_refit or {}, transform=None)
                return self._switched(Fit(None, told), _none)
            asked, options = self._options(transform, options)
            self._check_pairs(asked, queries, items, paired, chances)
            queries_, seen = self._bank(queries, fewer), self._seen(items, asked, paired)
            given = torch.from_numpy(queries_), seen
            how = self.dim, self.geometry
            bank = read_bank(given, *how) if paired else unpaired_bank(*given, *how)
            found = Debiaser(asked, geometry=self.geometry, **options)
            found.fit(torch.from_numpy(self._sampled(sample, seed)), bank.to(device))
            told: dict[str, Any] = dict(num_queries=bank.given, online=queries is None)
            if asked == 'auto':
                told['asked'] = asked
            if found.transform_ is None:
                lost = '; chances of lists are kept of biases alone' if chances else ''
                print_log(f'{self}: {found.why_}{lost}', 'current', logging.WARNING)
                return self._switched(Fit(None, dict(transform=None, **told)), _none)
            if chances:
                every = read_vectors(self._sampled(self.count(), seed), 'videos', self.geometry)
                found.calibration_ = fit_chances(bank, every, found._fitted, depth=DEPTH)
            numbers = {k: x for k, x in found.options_.items() if type(x) in (int, float)}
            told = dict(transform=found.transform_, **numbers, **told)
            return self._switched(Fit(found.bare(), told), self._anew(found, device))

    def _undo_refit(self) -> Moved:
        """All items get the biases of before the last refit; see :meth:`GalleryStore.undo`."""
        before = self._before
        if before is None:
            raise ValueError(f'{self} has no refit to undo')
        new = _none if before.debiaser is None else self._anew(before.debiaser, 'cpu')
        return self._switched(before, new)

    def _options(self, transform: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The transform and its options, where these are not given those of before."""
        last = self.last_refit or {}
        if transform == 'same':
            transform = last.get('asked') or last.get('transform') or ADDITIVE[0]
        given = {name: x for name, x in given.items() if x is not None}
        if transform == 'auto':
            return transform, given
        known = transform_named(transform, ADDITIVE).options
        if 'bank_marginals' in given:
            raise ValueError('refit: a store keeps numbers, no weights of bank queries')
        before = options_of(last) if last.get('transform') == transform else {}
        temperature = last.get('temperature') or self.about.get('temperature')
        if 'temperature' in known and temperature is not None:
            before['temperature'] = temperature
        options = {**before, **given}
        checked_options(transform, options)
        return transform, options

    def _bank(self, queries: Optional[Vectors], fewer: bool) -> np.ndarray:
        """The queries of a refit, which are enough of them; see :meth:`refit`."""
        count = self.count()
        if queries is not None:
            bank = self.checked(queries, what='refit')
            found, needed = len(np.unique(bank.round(4), axis=0)), count
        elif self.online is not None and len(self.online):
            bank = self.online.queries()
            found, needed = len(bank), min(count, self.online.capacity)
        else:
            raise ValueError(
                'refit: no queries were given, and the store keeps none of those that it has served'
            )
        if not count:
            raise ValueError('refit: the store is empty')
        if found < needed and not fewer:
            raise ValueError(
                f'refit: {found} different queries are too few for {count} items, {needed} or more '
                'expected: items that few queries speak of would get biases by chance; give more '
                'queries, or allow fewer (fewer=True, --fewer)'
            )
        return bank

    def _check_pairs(
        self, transform: str, queries: Any, items: Any, paired: bool, chances: bool
    ) -> None:
        if paired and (queries is None or items is None):
            raise ValueError('refit: paired=True needs queries and items, row i of both one pair')
        if chances and not paired:
            raise ValueError('refit: chances=True reads pairs: give items= and paired=True')
        if transform == 'auto' and items is not None and not paired:
            raise ValueError("refit: 'auto' reads items as pairs: paired=True, row i of both one")

    def _seen(self, items: Optional[Vectors], transform: str, paired: bool) -> Optional[Tensor]:
        """Items seen before, of a refit or of the last one; None: the transform reads none."""
        spec = TRANSFORMS.get(transform)  # None: auto
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
                f'refit: items seen before belong to {transform}, such as the videos of the bank, '
                f'and the gallery keeps none: give them (items=), or name another transform, such '
                f'as {ADDITIVE[0]!r}'
            )
        return last.bank_.items

    def _sampled(self, most: int, seed: int) -> np.ndarray:
        """float32 [min(N, most), D]: items drawn without replacement."""
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
        """What makes biases float32 [n] of vectors float32 [n, D]."""
        there = debiaser.bare(device)
        return lambda vectors: there.biases_of(vectors).float().cpu().numpy()

    def _switched(self, fit: Fit, anew: Callable[[np.ndarray], np.ndarray]) -> Moved:
        """Give all items the biases that ``anew`` makes; returns how far that moves the ranking."""
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
        self._switch(fit._replace(calibration=kept), biases())
        if lost:
            print_log(
                f'{self}: the calibration was of the scores of before, and is gone with them: fit '
                'one to the new scores',
                'current',
                logging.WARNING,
            )
        return moves.told()


def options_of(refit: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the transform in what is kept of a refit."""
    if refit.get('transform') is None:
        return {}
    known = TRANSFORMS[refit['transform']].options
    return {name: refit[name] for name in known if refit.get(name) is not None}


def _none(vectors: np.ndarray) -> np.ndarray:
    """No biases: zeros."""
    return np.zeros(len(vectors), np.float32)
