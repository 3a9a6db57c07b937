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
from mmvtr.arrays.searching import (
    QUERIES,
    Retrieved,
    checked_k,
    hubs_of,
    like,
    ranked,
    temperature_of,
)
from mmvtr.arrays.shift import DEPTH, LEAST, Shift, figures, shift_of
from mmvtr.arrays.state import State
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
from mmvtr.functional.values import arrays_too

Array = Union[np.ndarray, Tensor, Tokens]
_NOTHING: Mapping[str, Any] = MappingProxyType({})

#: :attr:`Debiaser.why_` of a Debiaser that has a bank and no gallery yet.
WAITING = 'not fitted: there is no gallery yet'


class Debiaser:
    """A gallery with the biases that a bank gives its items.

    One thread may change it while others search, export or save: these see it before or after.

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
            checked = checked_options(transform, options)
            options = {name: checked[name] for name in options}
        elif options:
            raise ValueError(
                f'{sorted(options)[0]!r} is an option of a transform: name one of {FITTED}'
            )
        self.transform, self.geometry, self.seed, self.options = transform, geometry, seed, options
        self._state = State()
        #: Gallery and calibration, and what the bank's texts find in that gallery (Asked.figures).
        self._of_bank: tuple[Any, Any, Any] = (None, None, None)

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
            self._state = State(bank=read_bank(bank, None, self.geometry), why=WAITING)
            return self
        gallery = read_vectors(videos, 'videos', self.geometry)
        self._fit(State(gallery, read_ids(ids, len(gallery))), bank)
        return self

    @torch.no_grad()
    def fit_scores(
        self,
        bank: Tensor | Tiles,
        *,
        extra_inputs: Mapping[str, Tensor | Tiles] = _NOTHING,
        pairs: Optional[Pairs] = None,
    ) -> Debiaser:
        """Fit the transform to scores instead of vectors; return ``self``.

        Args:
            bank: float [K, N], scores of K different queries seen before with N items, or tiles.
            extra_inputs: what the transform reads beside the bank, see :func:`.fit_biases`.
            pairs: the bank's pairs, from which ``'auto'`` chooses; None: not known.

        Raises:
            ValueError: see :func:`.fit_biases`.
        """
        tiles = as_tiles(bank)._replace(name='bank')
        chosen = Choice(self.transform, self.options, f'{self.transform or "raw"}: as asked')
        if self.transform == 'auto':
            chosen = choose_by_scores(tiles.shape[0], pairs, seed=self.seed)
        fitted, why = fitting.fit_scores(chosen, tiles, extra_inputs)
        self._state = State(fitted=fitted, why=why)
        return self

    @arrays_too
    @torch.no_grad()
    def transform_scores(self, scores: Tensor) -> Tensor:
        """Return the transformed scores, float [Q, N], of raw scores float [Q, N].

        Raises:
            ValueError: scores with another number of items, or that are not finite.
        """
        return _transformed(self._state.fitted, scores)

    @torch.no_grad()
    def biases_of(self, videos: Array) -> Tensor:
        """Return the biases of further items, float32 [n]; those of the gallery do not change.

        Args:
            videos: float [n, D].

        Raises:
            TypeError, ValueError: as :meth:`fit`; a transform without the additive form.
        """
        further = read_vectors(videos, 'videos', self.geometry)
        _, _, bank, fitted, _, _ = self._state
        if fitted is None:
            return torch.zeros(len(further))
        self._check_additive()
        check_width(further, bank.texts.shape[1], 'videos')
        return fitting.further(fitted, bank, further)

    def without_gallery(self, device: Union[str, torch.device] = 'cpu') -> Debiaser:
        """Return a copy on a device without the gallery, which holds only the part of the bank that
        biases of further items are computed from."""
        made = copy.copy(self)
        _, _, bank, fitted, _, _ = made._state
        if bank is not None:
            bank = dataclasses.replace(bank.to(device), pairs=None)
            if fitted is None or not TRANSFORMS[fitted.transform].reads_items:
                bank = dataclasses.replace(bank, items=None)
        if fitted is not None:
            rows = None if fitted.rows is None else fitted.rows.to(device)
            fitted = fitted._replace(items=torch.zeros(0), rows=rows)
        made._state = made._state._replace(gallery=None, ids=None, bank=bank, fitted=fitted)
        return made

    @torch.no_grad()
    def refit(self, bank: Any) -> Debiaser:
        """Fit all current items to a new bank; return ``self``.

        Args:
            bank: see :meth:`fit`.  A calibration belongs to the former biases and is dropped,
                which :attr:`why_` says.
        """
        self._fit(self._there(), bank)
        return self

    @torch.no_grad()
    def add(self, videos: Array, *, ids: Any = None) -> Debiaser:
        """Add items, with biases from the same bank; other biases do not change; return ``self``.

        A calibration is kept: :attr:`why_` says which share of the items was added after it, and
        :meth:`calibrate` calibrates anew.

        Args:
            videos: float [n, D].
            ids: their ids; required if the gallery has ids.

        Raises:
            TypeError, ValueError: see :meth:`fit`; an id that exists already.
        """
        gallery, named, bank, fitted, _, _ = self._there()
        further = read_vectors(videos, 'videos', self.geometry)
        check_width(further, gallery.width, 'the further videos')
        if (ids is None) != (named is None):
            raise ValueError('ids must be given for all videos or for none')
        if ids is not None:
            both = [*named.tolist(), *read_ids(ids, len(further)).tolist()]
            named = read_ids(both, len(both))
        whole = gallery + further
        if fitted is not None:
            new = fitting.further(fitted, bank, further)
            fitted = fitting.extended(fitted, new, bank, whole)
        self._state = self._state._replace(gallery=whole, ids=named, fitted=fitted)
        return self

    def calibrate(self) -> Debiaser:
        """Calibrate P(right) of the places of lists on the bank's own pairs; return ``self``.

        Raises:
            ValueError: a bank without pairs, or with fewer than 50 different ones.
        """
        gallery, _, bank, fitted, _, _ = self._there()
        self.keep(fit_chances(bank, gallery, fitted, seed=self.seed))
        return self

    def keep(self, calibration: Optional[ListChances]) -> None:
        """Keep a calibration that was fitted to these biases elsewhere; None = none."""
        self._state = self._state._replace(calibration=calibration)

    @property
    def calibration_(self) -> Optional[ListChances]:
        return self._state.calibration

    @property
    def why_(self) -> str:
        return self._state.said

    @property
    def transform_(self) -> Optional[str]:
        fitted = self._state.fitted
        return None if fitted is None else fitted.transform

    @property
    def options_(self) -> dict[str, Any]:
        fitted = self._state.fitted
        return {} if fitted is None else dict(fitted.options)

    @property
    def biases_(self) -> Tensor:
        fitted = self._state.fitted
        return torch.zeros(len(self)) if fitted is None else fitted.items

    @property
    def bank_(self) -> Optional[Bank]:
        """The different queries that the transform was fitted to, or None."""
        return self._state.bank

    @property
    def additive_(self) -> bool:
        """Whether the transform adds one number to each item, which :meth:`as_vectors` needs."""
        transform = self.transform_
        return transform is None or TRANSFORMS[transform].form == 'additive'

    def __len__(self) -> int:
        return 0 if self._state.gallery is None else len(self._state.gallery)

    def __bool__(self) -> bool:
        return True  # without a gallery, too

    def __repr__(self) -> str:
        gallery = self._state.gallery
        if self.transform_ is not None and gallery is None:
            return f'Debiaser({self.transform_}, without its gallery, {self.geometry})'
        if gallery is None:
            return f'Debiaser({self.transform!r}, geometry={self.geometry!r}), not fitted'
        size = f'{len(self)} items of width {gallery.width}'
        return f'Debiaser({self.transform_ or "raw"}, {size}, {self.geometry})'

    @torch.no_grad()
    def scores(self, texts: Array) -> Array:
        """Return the transformed scores of all items for each text, float32 [Q, N]."""
        state = self._there()
        queries = self._read(texts, state.gallery)
        tiles = (score_tiles(part, state.gallery) for part in queries.split(QUERIES))
        whole = (torch.cat([tile for _, tile in one.parts()], dim=1) for one in tiles)
        return like(texts)(torch.cat([_transformed(state.fitted, one) for one in whole]))

    def asked_before(self, texts: Array) -> str:
        """Return a note if most of the texts, float [Q, D], are in the bank, else ``''``."""
        return _asked_before(self._state, read_vectors(texts, 'texts', self.geometry).unit())

    @torch.no_grad()
    def search(
        self,
        texts: Array,
        k: int = 10,
        *,
        calibration: Optional[Calibration] = None,
        strict: bool = False,
    ) -> Retrieved:
        """Return the k best items of each text.

        If 100 different texts or more are given to a calibrated Debiaser, they are held against
        the bank's (:attr:`Retrieved.shift`); :attr:`Retrieved.why` says if they are not like them.

        Args:
            texts: numpy or torch, float [Q, D].
            k: items a text; all if there are fewer.
            calibration: of pairs, in place of :attr:`calibration_`, which is of places in lists.
            strict: refuse texts that are noticed not to be like the bank's.

        Raises:
            TypeError, ValueError: texts that are not a matrix of numbers of the gallery's width, k
                below 1; a calibration of raw scores although a transform ranks, or of debiased
                scores although none does; ``strict`` texts that are not like the bank's.
        """
        state, k = self._there(), checked_k(k)
        gallery, ids, bank, fitted, of_lists, _ = state
        _check_calibration(calibration, fitted)
        queries = self._read(texts, gallery)
        temperature = temperature_of(calibration or of_lists)
        every = (score_tiles(part, gallery) for part in queries.split(QUERIES))
        compared = of_lists is not None and of_lists.asked is not None and len(queries) >= LEAST
        deep = max(k, DEPTH) if compared else k
        parts = [ranked(tiles, fitted, deep, temperature) for tiles in every]
        raw, best, places, scores, debiased, log_sums = (torch.cat(x) for x in zip(*parts))
        shift = self._shift(state, queries, best) if compared else None
        if strict and shift is not None and shift.noticed:
            raise ValueError(str(shift))
        raw, places, scores, debiased = (x[:, :k] for x in (raw, places, scores, debiased))
        back, places = like(texts), places.cpu()
        look = None
        if bank is not None:
            look = partial(suspects, Vectors.of(bank.texts, self.geometry), gallery, ids)
        right = any_right = None
        if calibration is not None:
            size = dict(log_sums=log_sums, candidates=len(gallery))
            right = calibration.probabilities(debiased, **size)
        elif of_lists is not None:
            right, any_right = of_lists.places(debiased, log_sums)
        return Retrieved(
            ids=_named(ids, places, back),
            scores=back(scores),
            debiased=back(debiased),
            probabilities=None if right is None else back(right),
            any_right=None if any_right is None else back(any_right),
            hubs=hubs_of(raw.cpu(), places, len(gallery), look),
            transform=None if fitted is None else fitted.transform,
            options={} if fitted is None else dict(fitted.options),
            why='; '.join(
                filter(None, [state.said, _asked_before(state, queries), _unlike_bank(shift)])
            ),
            shift=shift,
        )

    @torch.no_grad()
    def as_vectors(self) -> Union[np.ndarray, list[np.ndarray]]:
        """Return the gallery as float32 [N, D + 1]: inner products with :meth:`query` are scores.

        FAISS, Qdrant, LanceDB, pgvector or Elasticsearch thus rank debiased, by inner product.  For
        ``'maxsim'``: N arrays [L, D + 1], for multi-vector engines with MaxSim.

        Raises:
            ValueError: a transform without the additive form, or another token-wise geometry.
        """
        one = copy.copy(self)  # of one state
        gallery = one._there().gallery
        one._check_additive()
        if self.geometry in SIDES:
            return engine_items(gallery.unit(), one.biases_)
        found = np.empty((len(gallery), gallery.width + 1), dtype=np.float32)
        for start in range(0, len(gallery), 2**14):
            part = slice(start, start + 2**14)
            found[part, :-1] = gallery.unit(part).cpu().numpy()
        found[:, -1] = one.biases_.cpu().numpy()
        return found

    def query(self, texts: Array, *, debiased: bool = True) -> Union[np.ndarray, list[np.ndarray]]:
        """Return texts as float32 [Q, D + 1] for :meth:`as_vectors`; the last entry is 1, or 0 for
        raw scores.  For ``'maxsim'``: Q arrays [L, D + 1], whose last entries sum to 1 or 0."""
        queries = self._read(texts, self._there().gallery)
        self._check_additive()
        if self.geometry in SIDES:
            return engine_queries(queries, float(debiased))
        rows = queries.cpu().numpy()
        return np.concatenate([rows, np.full((len(rows), 1), float(debiased), np.float32)], axis=1)

    def save(self, folder: Any) -> None:
        """Write the fitted transform without the gallery, or the bank if there is no gallery yet
        (:mod:`mmvtr.arrays.saved`)."""
        one = copy.copy(self)  # of one state
        if one.why_ != WAITING:
            one._there()
        saved.save(one, folder)

    @classmethod
    def load(cls, folder: Any, videos: Array, *, ids: Any = None) -> Debiaser:
        """Return what :meth:`save` wrote, with its gallery; a bank saved without one is fitted to
        ``videos`` (:mod:`mmvtr.arrays.saved`)."""
        return saved.load(cls, folder, videos, ids)

    # -- shared by the methods above --------------------------------------------------------

    def _fit(self, state: State, bank: Any) -> None:
        gallery = state.gallery
        bank = None if bank is None else read_bank(bank, gallery.width, self.geometry)
        chosen = fitting.chosen(self.transform, self.options, bank, gallery, self.seed)
        fitted, why = fitting.fit_bank(chosen, bank, gallery)
        if state.calibration is not None:
            why += '; the calibration of the former biases is gone'
        self._state = state._replace(bank=bank, fitted=fitted, why=why, calibration=None)

    def _there(self) -> State:
        """Return the state, with a gallery."""
        state = self._state
        if state.gallery is None:
            raise ValueError('this Debiaser has no gallery yet: call fit(videos, bank)')
        return state

    def _shift(self, state: State, queries: Tensor, best: Tensor) -> Optional[Shift]:
        """Hold queries [Q, D] against the bank's texts, by their best raw scores [Q, DEPTH]."""
        gallery, _, bank, _, chances, _ = state
        if len(gallery) < DEPTH:
            return None
        read, calibrated, known = self._of_bank
        if read is not gallery or calibrated is not chances:
            asked = chances.asked
            top = score_tiles(bank.texts[asked.rows], gallery, 'bank').best(DEPTH)[0]
            known = asked.figures(top, len(gallery))
            self._of_bank = gallery, chances, known
        return shift_of(queries, figures(best[:, :DEPTH]), known)

    def _read(self, texts: Array, gallery: Vectors) -> Tensor:
        queries = read_vectors(texts, 'texts', self.geometry)
        check_width(queries, gallery.width, 'texts')
        return queries.unit()

    def _check_additive(self) -> None:
        if self.geometry in SIDES and SIDES[self.geometry] != 'words':
            raise ValueError(f"no search engine ranks by {self.geometry!r}, only by 'maxsim'")
        if not self.additive_:
            raise ValueError(
                f'{self.transform_} does not add one number per item, so one more dimension cannot '
                'hold it: search with the Debiaser itself, or fit another transform'
            )


def _transformed(fitted: Optional[ItemBiases], scores: Tensor) -> Tensor:
    if fitted is None:
        return scores
    if scores.dim() != 2 or scores.shape[1] != len(fitted.items):
        raise ValueError(
            f'scores {list(scores.shape)} must be [queries, {len(fitted.items)}], the items fitted'
        )
    return fitted.transform_scores(scores)


def _named(ids: Optional[np.ndarray], places: Tensor, back: Any) -> Any:
    if ids is None:
        return back(places)
    found = ids[places.numpy()]
    if found.dtype == object or back(places) is not places:
        return found
    return torch.from_numpy(found)


def _asked_before(state: State, queries: Tensor) -> str:
    return '' if state.bank is None else asked_before(state.bank.texts, queries, 'texts that ask')


def _unlike_bank(shift: Optional[Shift]) -> str:
    return str(shift) if shift is not None and shift.noticed else ''


def _check_calibration(calibration: Any, fitted: Optional[ItemBiases]) -> None:
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
