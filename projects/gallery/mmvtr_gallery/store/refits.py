"""How the items of a store get new biases, and get back those of before."""

from __future__ import annotations

import logging
from typing import Any, Callable, Iterator, NamedTuple, Optional, Union

import numpy as np
import torch
from mmengine.logging import print_log
from torch import Tensor

from mmvtr.functional.transforms.transform_table import STORED, transform_named
from mmvtr.normaliser import Normaliser
from mmvtr_gallery.store.items import checked_vectors
from mmvtr_gallery.store.moved import Moved, Moves

Vectors = Union[Tensor, np.ndarray]

#: Items of which a refit finds the row biases; those of the columns are of all items.
SAMPLE = 100_000


class Fit(NamedTuple):
    """What gives items their biases, now or before the last refit.

    Attributes:
        normaliser: None: there are no biases.
        refit: its options; None: there was no refit.
        calibration: of the scores with these biases, as a dict; None: there is none.
    """

    normaliser: Optional[Normaliser]
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
        temperature: Optional[float] = None,
        iterations: Optional[int] = None,
        strictness: Optional[float] = None,
        sample: int = SAMPLE,
        seed: int = 0,
        device: Union[str, torch.device] = 'cpu',
        model: Optional[str] = None,
        fewer: bool = False,
    ) -> Moved:
        """Give all items new biases; vectors stay as they are, and readers see old or new biases.

        A bias says how often the queries would find an item, so it is known no better than these
        queries cover the items. Texts are to be at least as many as the items, the sample of served
        queries is to be full or as many; fewer make the ranking of items that few queries speak of
        a matter of chance.

        A calibration of raw scores stays; one of debiased scores is of the old biases, and goes,
        with a warning.

        Args:
            queries: float [K, D], the bank; None: the sample of served queries.
            items: of DBSN: float [M, D], seen before, such as the videos of the bank's texts; None:
                those of the last refit with it.
            transform: ``'sinkhorn'``, ``'unbalanced_sinkhorn'``, ``'inverted_softmax'``,
                ``'dbsn'``, None: no biases any more; ``'same'`` as the last refit, at first
                Sinkhorn.
            temperature: positive; default as the last refit, at first that of the export
                (``about['temperature']``), one of which there must have been.
            iterations: default as the last refit with it, at first the transform's own.
            strictness: of the unbalanced one; default as the last refit with it, at first .8.
            sample: items, drawn by ``seed``, that the row biases are found on; of fewer items all.
                With DBSN draw as large a share of ``items``.
            device: where it is computed.
            model: as :meth:`add`.
            fewer: take fewer queries than that nonetheless.

        Returns:
            How far the ranking has moved.

        Raises:
            ValueError: DBSN without items and after none with them, an empty store or bank, a bank
                of another model or width or of fewer queries than there must be, no temperature or
                one that gives biases that are not finite, options that do not fit.
            PermissionError, OSError: as :meth:`add`.
        """
        self._check_writable()
        self._check_model(model)
        with self._changing:
            if transform is None:
                told = dict(self.last_refit or {}, transform=None)
                return self._switched(Fit(None, told), _none)
            options = self._options(transform, temperature, iterations, strictness)
            bank, seen = self._bank(queries, fewer), self._seen(items, options['transform'])
            seen = None if seen is None else seen.to(device)
            normaliser = Normaliser.fit(
                torch.from_numpy(bank).to(device),
                torch.from_numpy(self._sampled(sample, seed)).to(device),
                items=seen,
                **options,
            )
            normaliser = normaliser._replace(
                queries=normaliser.queries.cpu(),
                row_biases=normaliser.row_biases.cpu(),
                items=None if seen is None else seen.cpu(),
            )
            told = dict(options, num_queries=len(bank), online=queries is None)
            told['strictness'] = normaliser.strictness
            return self._switched(Fit(normaliser, told), self._anew(normaliser, device))

    def _undo_refit(self) -> Moved:
        """All items get the biases of before the last refit; see :meth:`GalleryStore.undo`."""
        before = self._before
        if before is None:
            raise ValueError(f'{self} has had no refit that could be taken back')
        new = _none if before.normaliser is None else self._anew(before.normaliser, 'cpu')
        return self._switched(before, new)

    def _options(
        self,
        transform: str,
        temperature: Optional[float],
        iterations: Optional[int],
        strictness: Optional[float],
    ) -> dict[str, Any]:
        last = self.last_refit or {}
        if transform == 'same':
            transform = last.get('transform') or STORED[0]
        takes = transform_named(transform, STORED).options
        if temperature is None:
            temperature = last.get('temperature') or self.about.get('temperature')
        if temperature is None:
            raise ValueError(
                'refit: a temperature is needed, as there was no refit before and the export did '
                "not tell the model's"
            )
        again = last.get('transform') == transform
        if iterations is None and again:
            iterations = last.get('iterations')
        if iterations is None:
            iterations = takes.get('iterations', 0)  # the inverted softmax has none
        if strictness is None and 'strictness' in takes and again:
            strictness = last.get('strictness')
        return dict(
            transform=transform,
            temperature=float(temperature),
            iterations=iterations,
            strictness=0.8 if strictness is None else strictness,
        )

    def _bank(self, queries: Optional[Vectors], fewer: bool) -> np.ndarray:
        """The queries of a refit, which are enough of them; see :meth:`refit`."""
        count = self.count()
        if queries is not None:
            bank = checked_vectors(queries, self.dim, what='refit')
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

    def _seen(self, items: Optional[Vectors], transform: str) -> Optional[Tensor]:
        """Items seen before, of a refit or of the last one; None: the transform reads none."""
        if items is not None:
            return torch.from_numpy(checked_vectors(items, self.dim, what='refit'))
        if 'bank_gallery' not in transform_named(transform, STORED).reads:
            return None
        last = self.normaliser
        if last is None or last.items is None:
            raise ValueError(
                f'refit: items seen before belong to {transform}, such as the videos of the bank, '
                f'and the gallery keeps none: give them (items=), or name another transform, such '
                f'as {STORED[0]!r}'
            )
        return last.items

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
        self, normaliser: Normaliser, device: Union[str, torch.device]
    ) -> Callable[[np.ndarray], np.ndarray]:
        """What makes biases float32 [n] of vectors float32 [n, D]."""
        there = normaliser._replace(
            queries=normaliser.queries.to(device), row_biases=normaliser.row_biases.to(device)
        )
        return lambda vectors: there.biases(torch.from_numpy(vectors).to(device)).cpu().numpy()

    def _switched(self, fit: Fit, anew: Callable[[np.ndarray], np.ndarray]) -> Moved:
        """Give all items the biases that ``anew`` makes; returns how far that moves the ranking."""
        asked = fit.normaliser or self.normaliser
        moves = Moves(None if asked is None else asked.queries.numpy())

        def biases() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for keys, vectors, old in self._batches():
                new = anew(vectors)
                if not np.isfinite(new).all():
                    raise ValueError(
                        f'refit: temperature {fit.refit["temperature"]:.3g} gives biases that are '
                        'not finite: take a larger one'
                    )
                moves.see(vectors, old, new)
                yield keys, new

        kept = self._calibration_after(fit.calibration)
        lost = kept is None and self._calibration is not None
        self._switch(fit._replace(calibration=kept), biases())
        if lost:
            print_log(
                f'{self}: the calibration was of scores with the biases of before, and is gone '
                'with them: fit one to the new scores',
                'current',
                logging.WARNING,
            )
        return moves.told()


def _none(vectors: np.ndarray) -> np.ndarray:
    """No biases: zeros."""
    return np.zeros(len(vectors), np.float32)
