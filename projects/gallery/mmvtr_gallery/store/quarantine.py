"""Quarantine: items that searches exclude until they are released, and suspects for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Optional, Sequence, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays.hubs import LEAST, Suspect, drawn, judged, list_length, named_suspects
from mmvtr.arrays.inputs import read_vectors
from mmvtr_gallery.store.filters import MOST_VALUES, Condition
from mmvtr_gallery.store.items import checked_ids, refuse_unknown
from mmvtr_gallery.store.undoing import OPPOSITE, Change


class Quarantine(ABC):
    """The part of GalleryStore that excludes items from searches."""

    @property
    def quarantined(self) -> list[str]:
        """Return the ids that no search finds, sorted."""
        return list(self._quarantined)

    def quarantine(self, ids: Sequence[str]) -> None:
        """Exclude items from all searches until :meth:`release`; they stay in the store.

        It applies to the id: an item that replaces one of them is excluded, too.

        Raises:
            ValueError: an unknown id, more than 10,000 in all.
            PermissionError, OSError: see :meth:`add`.
        """
        self._check_writable()
        ids = checked_ids(ids)
        with self._changing:
            refuse_unknown(sorted(set(ids) - self._known(ids)))
            held = sorted({*self._quarantined, *ids})
            if len(held) > MOST_VALUES:
                raise ValueError(f'quarantine: {len(held)} items, expected at most {MOST_VALUES}')
            new = len(held) - len(self._quarantined)
            if new:
                self._keep_quarantined(held, Change('quarantine', new))

    def release(self, ids: Sequence[str]) -> None:
        """Let searches find items again.

        Raises:
            ValueError: an id that is not in quarantine.
            PermissionError, OSError: see :meth:`add`.
        """
        self._check_writable()
        ids = checked_ids(ids)
        with self._changing:
            free = sorted(set(ids) - set(self._quarantined))
            if free:
                raise ValueError(f'{len(free)} ids are not in quarantine, e.g. {free[0][:80]!r}')
            left = sorted(set(self._quarantined) - set(ids))
            self._keep_quarantined(left, Change('release', len(set(ids))))

    def suspects(
        self, queries: Optional[Union[Tensor, np.ndarray]] = None, *, seed: int = 0
    ) -> list[Suspect]:
        """Return items that look like universal adversarial hubs, the broadest first.

        They are found as in :func:`mmvtr.hub_report`, by raw scores, without quarantined items.

        Args:
            queries: float [Q, D], such as training texts; None: the sample of served queries.
            seed: seed of the random draws.

        Raises:
            ValueError: fewer than 50 queries or items, queries of another width, no sample.
        """
        if queries is None:
            if self.online is None:
                raise ValueError('suspects: no queries were given, and the store keeps none')
            queries = self.online.queries()
        queries, count = self.checked(queries, what='suspects'), self.count()
        if min(len(queries), count) < LEAST:
            raise ValueError(
                f'suspects: {len(queries)} queries and {count} items are too few, at least {LEAST}'
            )
        unit = drawn(read_vectors(queries, 'queries'), seed).unit()
        found = self.search(unit, list_length(count), transform=False, exact=True, record=False)
        k = min(map(len, found))
        if not k:
            return []
        names = sorted({hit.item.id for hits in found for hit in hits[:k]})
        place = {name: i for i, name in enumerate(names)}
        lists = torch.tensor([[place[hit.item.id] for hit in hits[:k]] for hits in found])
        return named_suspects(*judged(lists, unit, len(names), seed), names)

    def _undo_quarantine(self, last: Change) -> None:
        """Quarantine again what was in quarantine before the last change; see :meth:`undo`."""
        change = Change(OPPOSITE[last.kind], last.items, not last.undone)
        self._keep_quarantined(self._held_before, change)

    def _left_out(self) -> list[Condition]:
        """Return the condition that every search adds to its filter."""
        held = self._quarantined
        return [Condition('id', values=held, refused=True)] if held else []

    # -- of an engine ------------------------------------------------------------------------

    @property
    @abstractmethod
    def _quarantined(self) -> list[str]:
        """Return the stored ids, sorted."""

    @property
    @abstractmethod
    def _held_before(self) -> list[str]:
        """Return the ids before the last change, which was one of the quarantine."""

    @abstractmethod
    def _keep_quarantined(self, ids: list[str], change: Change) -> None:
        """Replace the stored ids, as one change that can be undone."""
