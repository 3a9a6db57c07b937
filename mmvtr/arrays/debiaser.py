"""The Debiaser: a gallery with the item biases of a transform, and its search."""

from __future__ import annotations

import copy
import dataclasses
from functools import partial
from types import MappingProxyType
from typing import Any, Mapping, Optional, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays import fitting, saved
from mmvtr.arrays.choice import Choice, Pairs, choose_by_scores
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
from mmvtr.arrays.searching import QUERIES, Retrieved, hubs_of, like, ranked, temperature_of
from mmvtr.arrays.tokens import SIDES, Tokens, engine_items, engine_queries
from mmvtr.functional.similarities.distinct import asked_before
from mmvtr.functional.similarities.tiles import Tiles, as_tiles
from mmvtr.functional.transforms.item_biases import ItemBiases
from mmvtr.functional.transforms.transform_table import (
    FITTED,
    OF_BANK,
    TRANSFORMS,
    checked_options,
)
from mmvtr.functional.uncertainty.calibration import Calibration

Array = Union[np.ndarray, Tensor, Tokens]
_NOTHING: Mapping[str, Any] = MappingProxyType({})

#: :attr:`Debiaser.why_` of a Debiaser that has a bank and no gallery yet.
WAITING = 'not fitted: there is no gallery yet'


class Debiaser:
    """A gallery with the biases that a bank gives its items.

    Args:
        transform: ``'auto'`` (:func:`mmvtr.arrays.choose`, by the bank alone), None = raw, or a
            name of the table of transforms that reads a bank (docs/arrays.md lists them).
        geometry: ``'cosine'`` of vectors of any length, ``'inner_product'`` of vectors as given,
            or, for :class:`Tokens`, ``'maxsim'`` (each query token with its best item token),
            ``'maxsim_of_items'`` (each item token with its best query token) or ``'token_wise'``
            (the mean of both).
        seed: random seed.
        **options: options of the transform, see :func:`mmvtr.fit`.

    Attributes:
        transform_: the fitted transform; None = raw.
        options_: its options as numbers, the temperature in units of scores.
        why_: a sentence that says what was chosen and why.
        biases_: float32 [N], added to the scores of each item, with mean 0 over the items that were
            fitted; for a transform without the additive form, what it reads of each item.
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
        if transform not in ('auto', None, *OF_BANK):
            raise ValueError(
                f"transform must be 'auto', None or one of {OF_BANK}, not {str(transform)[:80]!r}"
            )
        if transform not in ('auto', None):
            checked_options(transform, options)
        elif options:
            raise ValueError(
                f'{sorted(options)[0]!r} is an option of a transform: name one of {FITTED}'
            )
        self.transform, self.geometry, self.seed, self.options = transform, geometry, seed, options
        self.calibration_: Optional[ListChances] = None
        self._gallery: Optional[Vectors] = None
        self._ids: Optional[np.ndarray] = None
        self._bank: Optional[Bank] = None
        self._fitted: Optional[ItemBiases] = None
        self.why_ = 'not fitted'

    @torch.no_grad()
    def fit(self, videos: Optional[Array], bank: Any = None, *, ids: Any = None) -> Debiaser:
        """Fit the transform's biases to a gallery and a bank; return ``self``.

        Args:
            videos: numpy or torch, float [N, D]; may be memory-mapped, and is not copied.  None:
                the gallery is given later; the bank is kept, and :meth:`load` fits it to the
                gallery.
            bank: queries seen before, float [B, D], or ``(texts, videos)``, row i of both one pair;
                equal rows count once; or a :class:`mmvtr.arrays.inputs.Bank`.  None: raw.
            ids: one id a video; default row numbers.

        Raises:
            TypeError, ValueError: arrays that are not matrices of numbers of one width, ids that do
                not fit, a transform that reads a bank which was not given.
        """
        if videos is None:
            if bank is None:
                raise ValueError('there is neither a gallery nor a bank')
            self._gallery = self._ids = self._fitted = self.calibration_ = None
            self._bank = read_bank(bank, None, self.geometry)
            self.why_ = WAITING
            return self
        gallery = read_vectors(videos, 'videos', self.geometry)
        named = read_ids(ids, len(gallery))
        known = None if bank is None else read_bank(bank, gallery.width, self.geometry)
        self._gallery, self._ids = gallery, named
        self._fit(known)
        return self

    @torch.no_grad()
    def fit_scores(
        self,
        bank: Tensor | Tiles,
        *,
        beside: Mapping[str, Tensor | Tiles] = _NOTHING,
        pairs: Optional[Pairs] = None,
    ) -> Debiaser:
        """Fit the transform to scores instead of vectors; return ``self``.

        Args:
            bank: float [K, N], scores of K different queries seen before with N items, or tiles.
            beside: the other matrices that the transform reads, by name, see :func:`.fit_biases`.
            pairs: the bank's pairs, from which ``'auto'`` chooses; None: not known.

        Raises:
            ValueError: see :func:`.fit_biases`.
        """
        self._gallery = self._ids = self._bank = self.calibration_ = None
        tiles = as_tiles(bank)._replace(name='bank')
        chosen = Choice(self.transform, self.options, f'{self.transform or "raw"}: as asked')
        if self.transform == 'auto':
            chosen = choose_by_scores(tiles.shape[0], pairs, seed=self.seed)
        self._fitted, self.why_ = fitting.fit_scores(chosen, tiles, beside)
        return self

    @torch.no_grad()
    def changed(self, scores: Tensor) -> Tensor:
        """Return the transformed scores, float [Q, N], of raw scores float [Q, N]."""
        return scores if self._fitted is None else self._fitted.changed(scores)

    @torch.no_grad()
    def biases_of(self, videos: Array) -> Tensor:
        """Return the biases of further items, float32 [n]; those of the gallery do not change.

        Args:
            videos: float [n, D].

        Raises:
            TypeError, ValueError: as :meth:`fit`; a transform without the additive form.
        """
        further = read_vectors(videos, 'videos', self.geometry)
        if self._fitted is None:
            return torch.zeros(len(further))
        self._check_additive()
        check_width(further, self._bank.texts.shape[1], 'videos')
        return fitting.further(self._fitted, self._bank, further)

    def bare(self, device: Union[str, torch.device] = 'cpu') -> Debiaser:
        """Return a copy on a device without the gallery, which holds only the part of the bank that
        biases of further items are computed from."""
        made = copy.copy(self)
        made._gallery = made._ids = None
        if self._bank is not None:
            made._bank = self._bank.to(device)
            if self._fitted is None or not TRANSFORMS[self._fitted.transform].reads_items:
                made._bank = dataclasses.replace(made._bank, items=None)
            made._bank = dataclasses.replace(made._bank, pairs=None)
        if self._fitted is not None:
            rows = self._fitted.rows
            rows = None if rows is None else rows.to(device)
            made._fitted = self._fitted._replace(items=torch.zeros(0), rows=rows)
        return made

    @torch.no_grad()
    def refit(self, bank: Any) -> Debiaser:
        """Fit all current items to a new bank; return ``self``.

        Args:
            bank: see :meth:`fit`.  A calibration belongs to the former biases and is dropped.
        """
        self._check_fitted()
        self._fit(None if bank is None else read_bank(bank, self._gallery.width, self.geometry))
        return self

    @torch.no_grad()
    def add(self, videos: Array, *, ids: Any = None) -> Debiaser:
        """Add items, with biases from the same bank; other biases do not change; return ``self``.

        Args:
            videos: float [n, D].
            ids: their ids; required if the gallery has ids.

        Raises:
            TypeError, ValueError: see :meth:`fit`; an id that exists already.
        """
        self._check_fitted()
        further = read_vectors(videos, 'videos', self.geometry)
        check_width(further, self._gallery.width, 'the further videos')
        if (ids is None) != (self._ids is None):
            raise ValueError('ids must be given for all videos or for none')
        if ids is not None:
            both = [*self._ids.tolist(), *read_ids(ids, len(further)).tolist()]
            self._ids = read_ids(both, len(both))
        self._gallery = self._gallery + further
        if self._fitted is not None:
            self._extend(further)
        return self

    def calibrate(self) -> Debiaser:
        """Calibrate P(right) of the places of lists on the bank's own pairs; return ``self``.

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
        return torch.zeros(len(self)) if self._fitted is None else self._fitted.items

    @property
    def bank_(self) -> Optional[Bank]:
        """The different queries that the transform was fitted to, or None."""
        return self._bank

    @property
    def additive_(self) -> bool:
        """Whether the transform adds one number to each item, which :meth:`as_vectors` needs."""
        return self._fitted is None or TRANSFORMS[self._fitted.transform].form == 'additive'

    def __len__(self) -> int:
        return 0 if self._gallery is None else len(self._gallery)

    def __bool__(self) -> bool:
        return True  # without a gallery, too

    def __repr__(self) -> str:
        if self._fitted is not None and self._gallery is None:
            return f'Debiaser({self.transform_}, without its gallery, {self.geometry})'
        if self._gallery is None:
            return f'Debiaser({self.transform!r}, geometry={self.geometry!r}), not fitted'
        size = f'{len(self)} items of width {self._gallery.width}'
        return f'Debiaser({self.transform_ or "raw"}, {size}, {self.geometry})'

    @torch.no_grad()
    def scores(self, texts: Array) -> Array:
        """Return the transformed scores of all items for each text, float32 [Q, N]."""
        queries = self._queries(texts)
        tiles = (score_tiles(part, self._gallery) for part in queries.split(QUERIES))
        whole = (torch.cat([tile for _, tile in one.parts()], dim=1) for one in tiles)
        return like(texts)(torch.cat([self.changed(one) for one in whole]))

    def asked_before(self, texts: Array) -> str:
        """Return a note if most of the texts, float [Q, D], are in the bank, else ``''``."""
        return self._asked_before(read_vectors(texts, 'texts', self.geometry).unit())

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
            TypeError, ValueError: texts that are not a matrix of numbers of the gallery's width, k
                below 1; a calibration of raw scores although a transform ranks, or of debiased
                scores although none does.
        """
        self._check_calibration(calibration)
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f'k must be an integer of 1 or more, not {str(k)[:80]!r}')
        queries = self._queries(texts)
        temperature = temperature_of(calibration or self.calibration_)
        every = (score_tiles(part, self._gallery) for part in queries.split(QUERIES))
        parts = [ranked(tiles, self._fitted, int(k), temperature) for tiles in every]
        raw, places, scores, debiased, log_sums = (torch.cat(x) for x in zip(*parts))
        back, places = like(texts), places.cpu()
        look = None
        if self._bank is not None:
            look = partial(
                suspects, Vectors.of(self._bank.texts, self.geometry), self._gallery, self._ids
            )
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
            why='; '.join(filter(None, [self.why_, self._asked_before(queries)])),
        )

    @torch.no_grad()
    def as_vectors(self) -> Union[np.ndarray, list[np.ndarray]]:
        """Return the gallery as float32 [N, D + 1]: inner products with :meth:`query` are scores.

        FAISS, Qdrant, LanceDB, pgvector or Elasticsearch thus rank debiased, by inner product.  For
        ``'maxsim'``: N arrays [L, D + 1], for multi-vector engines with MaxSim.

        Raises:
            ValueError: a transform without the additive form, or another token-wise geometry.
        """
        self._check_fitted()
        self._check_additive()
        if self.geometry in SIDES:
            return engine_items(self._gallery.unit(), self.biases_)
        found = np.empty((len(self), self._gallery.width + 1), dtype=np.float32)
        for start in range(0, len(self), 2**14):
            part = slice(start, start + 2**14)
            found[part, :-1] = self._gallery.unit(part).cpu().numpy()
        found[:, -1] = self.biases_.cpu().numpy()
        return found

    def query(self, texts: Array, *, debiased: bool = True) -> Union[np.ndarray, list[np.ndarray]]:
        """Return texts as float32 [Q, D + 1] for :meth:`as_vectors`; the last entry is 1, or 0 for
        raw scores.  For ``'maxsim'``: Q arrays [L, D + 1], whose last entries sum to 1 or 0."""
        self._check_fitted()
        self._check_additive()
        if self.geometry in SIDES:
            return engine_queries(self._queries(texts), float(debiased))
        rows = self._queries(texts).cpu().numpy()
        return np.concatenate([rows, np.full((len(rows), 1), float(debiased), np.float32)], axis=1)

    def save(self, folder: Any) -> None:
        """Write the fitted transform without the gallery, or the bank if there is no gallery yet
        (:mod:`mmvtr.arrays.saved`)."""
        if self._gallery is None and self.why_ != WAITING:
            self._check_fitted()
        saved.save(self, folder)

    @classmethod
    def load(cls, folder: Any, videos: Array, *, ids: Any = None) -> Debiaser:
        """Return what :meth:`save` wrote, with its gallery; a bank saved without one is fitted to
        ``videos`` (:mod:`mmvtr.arrays.saved`)."""
        return saved.load(cls, folder, videos, ids)

    # -- shared by the methods above --------------------------------------------------------

    def _fit(self, bank: Optional[Bank]) -> None:
        chosen = fitting.chosen(self.transform, self.options, bank, self._gallery, self.seed)
        self._bank, self.calibration_ = bank, None
        self._fitted, self.why_ = fitting.fit_bank(chosen, bank, self._gallery)

    def _extend(self, further: Vectors) -> None:
        new = fitting.further(self._fitted, self._bank, further)
        self._fitted = fitting.extended(self._fitted, new, self._bank, self._gallery)
        self.calibration_ = None

    def _queries(self, texts: Array) -> Tensor:
        self._check_fitted()
        queries = read_vectors(texts, 'texts', self.geometry)
        check_width(queries, self._gallery.width, 'texts')
        return queries.unit()

    def _named(self, places: Tensor, back: Any) -> Any:
        if self._ids is None:
            return back(places)
        found = self._ids[places.numpy()]
        if found.dtype == object or back(places) is not places:
            return found
        return torch.from_numpy(found)

    def _asked_before(self, queries: Tensor) -> str:
        if self._bank is None:
            return ''
        return asked_before(self._bank.texts, queries, 'texts that ask')

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
                f'the calibration is for {fitted_on} scores, but these are ranked by '
                f'{self.transform_ or "raw scores"}: calibrate() the fitted Debiaser, or fit a '
                'calibration to what ranks'
            )

    def _check_additive(self) -> None:
        if self.geometry in SIDES and SIDES[self.geometry] != 'words':
            raise ValueError(f"no search engine ranks by {self.geometry!r}, only by 'maxsim'")
        if not self.additive_:
            raise ValueError(
                f'{self.transform_} does not add one number per item, so one more dimension cannot '
                'hold it: search with the Debiaser itself, or fit another transform'
            )
