"""One fitted object: a gallery, what a transform adds to its items, and how it is searched."""

from __future__ import annotations

from functools import partial
from typing import Any, Optional, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays import saved
from mmvtr.arrays.choice import Choice, choose
from mmvtr.arrays.hubs import suspects
from mmvtr.arrays.inputs import (
    Bank,
    Geometry,
    Vectors,
    check_geometry,
    check_width,
    read_bank,
    read_ids,
    read_vectors,
    score_tiles,
)
from mmvtr.arrays.list_chances import ListChances, fit_chances
from mmvtr.arrays.results import Retrieved, hubs_of, like
from mmvtr.functional.similarities.distinct import row_groups
from mmvtr.functional.similarities.tiles import Tiles
from mmvtr.functional.transforms.item_biases import ItemBiases, fit_biases
from mmvtr.functional.transforms.transform_table import FITTED, TRANSFORMS
from mmvtr.functional.uncertainty.calibration import Calibration

Array = Union[np.ndarray, Tensor]
#: Queries whose scores are made at a time.
QUERIES = 1024
#: Names of the transforms that are offered: those that read a bank.
NAMES = tuple(name for name, x in TRANSFORMS.items() if 'bank' in x.reads)


class Debiaser:
    """A gallery with the biases that a bank gives its items.

    Args:
        transform: ``'auto'`` (:func:`mmvtr.arrays.choose`, by the bank alone), None = raw, or a
            name of the table of transforms that reads a bank (docs/arrays.md lists them).
        geometry: ``'cosine'``, of vectors of any length, or ``'inner_product'``, of vectors as they
            are.
        seed: of what is drawn.
        **options: of the transform, as of :func:`mmvtr.fit`.

    Attributes:
        transform_: what was fitted; None = raw.
        options_: its options as numbers, the temperature in units of scores.
        why_: a sentence that says what was chosen and why.
        biases_: float32 [N], what is added to the scores of each item, of mean 0 over the items
            that were fitted; of a transform without the additive form what it reads of each item.
        calibration_: P(right) of places in lists, or None before :meth:`calibrate`.

    Raises:
        ValueError: an unknown transform, option or geometry.
    """

    def __init__(
        self,
        transform: Optional[str] = 'auto',
        *,
        geometry: Geometry = 'cosine',
        seed: int = 0,
        **options: Any,
    ) -> None:
        check_geometry(geometry)
        if transform not in ('auto', None, *NAMES):
            raise ValueError(
                f"transform must be 'auto', None or one of {NAMES}, not {str(transform)[:80]!r}"
            )
        if options and transform in ('auto', None):
            raise ValueError(f'{sorted(options)[0]!r} is of a transform: name one of {FITTED}')
        known = TRANSFORMS[transform].options if transform in NAMES else {}
        if unknown := sorted({*options} - {*known}):
            raise ValueError(f'{transform} takes {sorted(known)}, not {unknown[0]!r}')
        self.transform, self.geometry, self.seed, self.options = transform, geometry, seed, options
        self.calibration_: Optional[ListChances] = None
        self._gallery: Optional[Vectors] = None
        self._ids: Optional[np.ndarray] = None
        self._bank: Optional[Bank] = None
        self._fitted: Optional[ItemBiases] = None
        self.why_ = 'not fitted'

    @torch.no_grad()
    def fit(self, videos: Array, bank: Any = None, *, ids: Any = None) -> Debiaser:
        """Find what each item gets; returns itself.

        Args:
            videos: numpy or torch, float [N, D]; may be memory-mapped, and is not copied.
            bank: queries seen before, float [B, D], or ``(texts, videos)``, row i of both one pair;
                equal rows count once.  None: raw.
            ids: of the videos, one each; default row numbers.

        Raises:
            TypeError, ValueError: arrays that are no matrices of numbers of one width, ids that do
                not fit, a transform without the bank that it reads.
        """
        gallery = read_vectors(videos, 'videos', self.geometry)
        named = read_ids(ids, len(gallery))
        known = None if bank is None else read_bank(bank, gallery.width, self.geometry)
        self._gallery, self._ids = gallery, named
        self._fit(known)
        return self

    @torch.no_grad()
    def refit(self, bank: Any) -> Debiaser:
        """Find the biases anew, of all items that are there by now; returns itself.

        Args:
            bank: as of :meth:`fit`.  A calibration is of the biases of before and goes with them.
        """
        self._check_fitted()
        self._fit(None if bank is None else read_bank(bank, self._gallery.width, self.geometry))
        return self

    @torch.no_grad()
    def add(self, videos: Array, *, ids: Any = None) -> Debiaser:
        """Add items, which get biases from the same bank; those of the others stay; returns itself.

        Args:
            videos: float [n, D].
            ids: of these; needed where the others have some.

        Raises:
            TypeError, ValueError: as :meth:`fit`; an id that is there already.
        """
        self._check_fitted()
        further = read_vectors(videos, 'videos', self.geometry)
        check_width(further, self._gallery.width, 'the further videos')
        if (ids is None) != (self._ids is None):
            raise ValueError('ids: of all videos or of none')
        if ids is not None:
            both = [*self._ids.tolist(), *read_ids(ids, len(further)).tolist()]
            self._ids = read_ids(both, len(both))
        self._gallery = self._gallery + further
        if self._fitted is not None:
            self._extend(further)
        return self

    def calibrate(self) -> Debiaser:
        """Find P(right) of the places of lists from the bank's own pairs; returns itself.

        Raises:
            ValueError: a bank without pairs, or with fewer than 50 different ones.
        """
        self._check_fitted()
        self.calibration_ = fit_chances(self._bank, self._gallery, self._fitted, seed=self.seed)
        return self

    @property
    def transform_(self) -> Optional[str]:
        return None if self._fitted is None else self._fitted.transform

    @property
    def options_(self) -> dict[str, Any]:
        return {} if self._fitted is None else dict(self._fitted.options)

    @property
    def biases_(self) -> Tensor:
        self._check_fitted()
        return torch.zeros(len(self)) if self._fitted is None else self._fitted.items

    @property
    def additive_(self) -> bool:
        """Whether scores are those of one inner product, see :meth:`as_vectors`."""
        return self._fitted is None or TRANSFORMS[self._fitted.transform].form == 'additive'

    def __len__(self) -> int:
        return 0 if self._gallery is None else len(self._gallery)

    def __repr__(self) -> str:
        if self._gallery is None:
            return f'Debiaser({self.transform!r}, geometry={self.geometry!r}), not fitted'
        size = f'{len(self)} items of width {self._gallery.width}'
        return f'Debiaser({self.transform_ or "raw"}, {size}, {self.geometry})'

    @torch.no_grad()
    def scores(self, texts: Array) -> Array:
        """Return what ranks all items for each text, float32 [Q, N], of the texts' kind."""
        queries = self._queries(texts)
        tiles = (score_tiles(part, self._gallery) for part in queries.split(QUERIES))
        whole = (torch.cat([tile for _, tile in one.parts()], dim=1) for one in tiles)
        return like(texts)(torch.cat([self._changed(one) for one in whole]))

    @torch.no_grad()
    def search(
        self, texts: Array, k: int = 10, *, calibration: Optional[Calibration] = None
    ) -> Retrieved:
        """Return the k best items of each text.

        Args:
            texts: numpy or torch, float [Q, D].
            k: items a text; all if there are fewer.
            calibration: of pairs, in place of :attr:`calibration_`, which is of places in lists.

        Raises:
            TypeError, ValueError: texts that are no matrix of numbers of the gallery's width, k
                below 1; a calibration of raw scores where a transform ranks, or of debiased ones
                where none does.
        """
        self._check_calibration(calibration)
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f'k must be an integer of 1 or more, not {str(k)[:80]!r}')
        queries = self._queries(texts)
        temperature = _temperature(calibration or self.calibration_)
        parts = [self._ranked(part, int(k), temperature) for part in queries.split(QUERIES)]
        raw, places, scores, debiased, log_sums = (torch.cat(x) for x in zip(*parts))
        back, places = like(texts), places.cpu()
        look = None
        if self._bank is not None:
            look = partial(suspects, Vectors.of(self._bank.texts), self._gallery, self._ids)
        right = any_right = None
        if calibration is not None:
            size = dict(log_sums=log_sums, candidates=len(self))
            right = calibration.probabilities(debiased, **size)
        elif self.calibration_ is not None:
            right, any_right = self.calibration_.places(debiased, log_sums)
        return Retrieved(
            ids=self._named(places, back),
            scores=back(scores),
            debiased=back(debiased),
            probabilities=None if right is None else back(right),
            any_right=None if any_right is None else back(any_right),
            hubs=hubs_of(raw.cpu(), places, len(self), look),
            transform=self.transform_,
            options=self.options_,
            why=self.why_ + self._transductive(queries),
        )

    @torch.no_grad()
    def as_vectors(self) -> np.ndarray:
        """Return the gallery as float32 [N, D + 1]: inner products with :meth:`query` are scores.

        So FAISS, Qdrant, LanceDB, pgvector or Elasticsearch rank debiased, by inner product.

        Raises:
            ValueError: a transform without the additive form.
        """
        self._check_fitted()
        self._check_additive()
        found = np.empty((len(self), self._gallery.width + 1), dtype=np.float32)
        for start in range(0, len(self), 2**14):
            part = slice(start, start + 2**14)
            found[part, :-1] = self._gallery.unit(part).cpu().numpy()
        found[:, -1] = self.biases_.cpu().numpy()
        return found

    def query(self, texts: Array, *, debiased: bool = True) -> np.ndarray:
        """Return texts as float32 [Q, D + 1] for :meth:`as_vectors`; the last entry is 1, or 0 =
        raw scores."""
        self._check_fitted()
        self._check_additive()
        rows = self._queries(texts).cpu().numpy()
        return np.concatenate([rows, np.full((len(rows), 1), float(debiased), np.float32)], axis=1)

    def save(self, folder: Any) -> None:
        """Write what was fitted, without the gallery itself (:mod:`mmvtr.arrays.saved`)."""
        self._check_fitted()
        saved.save(self, folder)

    @classmethod
    def load(cls, folder: Any, videos: Array, *, ids: Any = None) -> Debiaser:
        """Return what :meth:`save` wrote, of the same gallery (:mod:`mmvtr.arrays.saved`)."""
        return saved.load(cls, folder, videos, ids)

    # -- what the above share ---------------------------------------------------------------

    def _fit(self, bank: Optional[Bank]) -> None:
        chosen = self._chosen(bank)
        self._bank, self._fitted, self.calibration_ = bank, None, None
        self.why_ = chosen.why
        if chosen.transform is None:
            return
        tiles = score_tiles(bank.texts, self._gallery, 'bank')
        if _all_alike(tiles):
            self.why_ = f'raw: all {len(self)} items score alike with the bank: nothing to rank'
            return
        self._fitted = fit_biases(
            chosen.transform, tiles, beside=self._beside(bank), **chosen.options
        )

    def _chosen(self, bank: Optional[Bank]) -> Choice:
        if self.transform is None:
            return Choice(None, {}, 'raw: as asked')
        if self.transform == 'auto':
            return choose(bank, self._gallery, seed=self.seed)
        if bank is None:
            raise ValueError(
                f'{self.transform} needs a bank: queries seen before, [B, {self._gallery.width}]'
            )
        reads = {'bank_gallery', 'item_bank'} & {*TRANSFORMS[self.transform].reads}
        if reads and bank.items is None:
            raise ValueError(f'{self.transform} reads items seen before: bank=(texts, videos)')
        return Choice(self.transform, self.options, f'{self.transform}: as asked, {bank.said}')

    def _beside(self, bank: Bank, further: Optional[Vectors] = None) -> dict[str, Tiles]:
        name = self.transform if self.transform in TRANSFORMS else None
        reads = TRANSFORMS[name].reads if name else ()
        found = {}
        if 'bank_gallery' in reads:
            found['bank_gallery'] = score_tiles(bank.texts, Vectors.of(bank.items), 'bank_gallery')
        if 'item_bank' in reads:
            found['item_bank'] = score_tiles(bank.items, further or self._gallery, 'item_bank')
        return found

    def _extend(self, further: Vectors) -> None:
        fitted, bank = self._fitted, self._bank
        new = fitted.further(
            score_tiles(bank.texts, further, 'bank'), self._beside(bank, further).get('item_bank')
        )
        fitted = fitted._replace(items=torch.cat([fitted.items, new.to(fitted.items)]))
        if fitted.active is not None:  # whose best item it is, further items change
            tiles = score_tiles(bank.texts, self._gallery, 'bank')
            active = torch.zeros(len(self), dtype=torch.bool)
            active[tiles.best(fitted.options['neighbours'])[1].flatten().cpu()] = True
            fitted = fitted._replace(active=active)
        self._fitted, self.calibration_ = fitted, None

    def _queries(self, texts: Array) -> Tensor:
        self._check_fitted()
        queries = read_vectors(texts, 'texts', self.geometry)
        check_width(queries, self._gallery.width, 'texts')
        return queries.unit()

    def _changed(self, scores: Tensor) -> Tensor:
        return scores if self._fitted is None else self._fitted.changed(scores)

    def _ranked(self, queries: Tensor, k: int, temperature: Optional[float]) -> tuple[Tensor, ...]:
        """Of some queries: raw places [q, k]; places, scores, debiased [q, k]; log sums [q]."""
        tiles = score_tiles(queries, self._gallery)
        fitted = self._fitted
        if fitted is not None and TRANSFORMS[fitted.transform].form == 'row':
            whole = torch.cat([tile for _, tile in tiles.parts()], dim=1)
            changed, raw = fitted.changed(whole), whole.topk(min(k, len(self)))
            debiased, places = changed.topk(min(k, len(self)))
            log_sums = changed.new_zeros(len(queries))
            if temperature is not None:
                log_sums = (changed.double() / temperature).logsumexp(1)
            return raw.indices, places, whole.gather(1, places), debiased, log_sums
        added = queries.new_zeros(len(self)) if fitted is None else fitted.items.to(queries)
        gate = None
        if fitted is not None and fitted.active is not None:
            best = tiles.best(1)[1][:, 0]
            gate = fitted.active.to(queries.device)[best].to(queries)[:, None]
        return one_pass(tiles, k, added, gate, temperature)

    def _named(self, places: Tensor, back: Any) -> Any:
        if self._ids is None:
            return back(places)
        found = self._ids[places.numpy()]
        if found.dtype == object or back(places) is not places:
            return found
        return torch.from_numpy(found)

    def _transductive(self, queries: Tensor) -> str:
        """What is said where most texts that ask are in the bank."""
        if self._bank is None or self._bank.texts.shape[1:] != queries.shape[1:]:
            return ''
        known = row_groups(torch.cat([self._bank.texts.cpu(), queries.cpu()]))
        shared = int((known[len(self._bank.texts) :] < len(self._bank.texts)).sum())
        if shared <= len(queries) / 2:
            return ''
        return f'; transductive: {shared} of the {len(queries)} texts that ask are in the bank'

    def _check_fitted(self) -> None:
        if self._gallery is None:
            raise ValueError('this Debiaser has no gallery yet: call fit(videos, bank)')

    def _check_calibration(self, calibration: Any) -> None:
        self._check_fitted()
        if calibration is None:
            return
        if not isinstance(calibration, Calibration):
            raise TypeError(f'calibration must be a Calibration, not {type(calibration).__name__}')
        if calibration.debiased != (self._fitted is not None):
            fitted_on = 'debiased' if calibration.debiased else 'raw'
            raise ValueError(
                f'the calibration is of {fitted_on} scores, and these are ranked by '
                f'{self.transform_ or "raw scores"}: calibrate() the fitted Debiaser, or fit a '
                'calibration to what ranks'
            )

    def _check_additive(self) -> None:
        if not self.additive_:
            raise ValueError(
                f'{self.transform_} is no number added to each item, so that no further dimension '
                'holds it: search with the Debiaser itself, or fit another transform'
            )


def fit(
    videos: Array,
    bank: Any = None,
    transform: Optional[str] = 'auto',
    *,
    ids: Any = None,
    geometry: Geometry = 'cosine',
    seed: int = 0,
    **options: Any,
) -> Debiaser:
    """Return a gallery that is ranked without hubs, by queries seen before.

    Args:
        videos: numpy or torch, float [N, D]; may be memory-mapped, and is not copied.
        bank: queries seen before, float [B, D], or ``(texts, videos)``, row i of both one pair.
            Training captions are one; those that ask now are none (transductive).
        transform: ``'auto'``, None = raw, or a transform's name, as of :class:`Debiaser`.
        ids: of the videos.
        geometry: ``'cosine'`` or ``'inner_product'``.
        seed: of what is drawn.
        **options: of the transform.  A ``temperature`` is in units of scores, or a share of how far
            a query's best score lies above its mean, as ``'20%'``, its default.

    Raises:
        TypeError, ValueError: as of :class:`Debiaser` and :meth:`Debiaser.fit`.

    Example:
        ::

            >>> import numpy as np, mmvtr
            >>> fitted = mmvtr.fit(np.eye(3, dtype='float32'), ids=['cat', 'dog', 'owl'])
            >>> fitted.search(np.eye(3, dtype='float32')[:2], k=1).ids.tolist()
            [['cat'], ['dog']]
    """
    return Debiaser(transform, geometry=geometry, seed=seed, **options).fit(videos, bank, ids=ids)


def _temperature(fit: Any) -> Optional[float]:
    """That at which a calibration reads the sum over the gallery, None where it reads none."""
    if fit is None or getattr(fit, 'method', 'temperature') != 'temperature':
        return None
    return fit.temperature


def _all_alike(tiles: Tiles) -> bool:
    """Return whether each query scores all items alike."""
    first = None
    for _, tile in tiles.parts():
        first = tile[:, :1] if first is None else first
        if not (tile == first).all():
            return False
    return True


def one_pass(
    tiles: Tiles, k: int, added: Tensor, gate: Optional[Tensor], temperature: Optional[float]
) -> tuple[Tensor, ...]:
    """Raw places [Q, k]; places, raw scores, debiased [Q, k]; log sums [Q], in one pass."""
    raw: list[Tensor] = []
    found: list[Tensor] = []
    log_sums = None
    for part, tile in tiles.parts():
        bias = added[part] if gate is None else gate * added[part]
        changed = tile + bias
        raw = _merged(raw, tile, tile, part.start, k)
        found = _merged(found, changed, tile, part.start, k)
        if temperature is not None:
            sums = (changed.double() / temperature).logsumexp(1)
            log_sums = sums if log_sums is None else torch.logaddexp(log_sums, sums)
    if log_sums is None:
        log_sums = added.new_zeros(tiles.shape[0])
    return raw[1], found[1], found[2], found[0], log_sums


def _merged(held: list[Tensor], order: Tensor, scores: Tensor, start: int, k: int) -> list[Tensor]:
    """The k highest so far: what orders them, their places, their raw scores, [Q, k] each."""
    top = order.topk(min(k, order.shape[1]), dim=1)
    new = [top.values, top.indices + start, scores.gather(1, top.indices)]
    if not held:
        return new
    both = [torch.cat(pair, dim=1) for pair in zip(held, new)]
    kept = both[0].topk(min(k, both[0].shape[1]), dim=1).indices
    return [x.gather(1, kept) for x in both]
