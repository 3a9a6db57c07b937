"""The Debiaser: a gallery with the item biases of a transform, and its search."""

from __future__ import annotations

import copy
import dataclasses
import threading
from types import MappingProxyType
from typing import Any, Callable, Mapping, Optional, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays import fitting, saved
from mmvtr.arrays.changes import changed
from mmvtr.arrays.choice import Choice, Pairs, choose_by_scores
from mmvtr.arrays.engine_vectors import as_queries, as_vectors, check_additive
from mmvtr.arrays.generations import Behind, Stale, behind
from mmvtr.arrays.inputs import (
    Bank,
    Geometry,
    check_geometry,
    check_width,
    in_order,
    read_bank,
    read_items,
    read_vectors,
    score_tiles,
)
from mmvtr.arrays.retrieved import Retrieved, like
from mmvtr.arrays.searching import QUERIES, check_calibration, checked_k, search
from mmvtr.arrays.shift import DEPTH
from mmvtr.arrays.state import Absent, State
from mmvtr.arrays.tokens import Tokens
from mmvtr.arrays.topk_fitting import fit_topk_probabilities
from mmvtr.arrays.topk_probabilities import TopKProbabilities
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
#: Held while the state of a Debiaser is replaced, which takes no time.
_REPLACING = threading.Lock()


class Debiaser:
    """A gallery with the biases that a bank gives its items.

    Threads may search, export and save while others change it: they see it before or after.  Of
    two changes at once one begins again, from what the other has made.
    ``copy.copy`` makes a second one of the same state, for a change that others are not to see yet.

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
        generation_: number of the last change; every change increases it.
        generations_: int64 [N], number of the change that made each item's row of
            :meth:`as_vectors`: its addition, its update, or the last fit.
        stale_: how many items came or went after the fit (:class:`mmvtr.arrays.Stale`); when to
            refit is measured in docs/arrays.md.

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
    def fit(self, videos: Any, bank: Any = None, *, ids: Any = None) -> Debiaser:
        """Fit the transform's biases to a gallery and a bank; return ``self``.

        Args:
            videos: numpy or torch, float [N, D]; may be memory-mapped, and is not copied.  Or a
                file of parquet, Arrow or npy, a table of Arrow or LanceDB, or a list of these
                (:func:`mmvtr.arrays.read_rows`).  None: the gallery is given later; the bank is
                kept, and :meth:`load` fits it to the gallery.
            bank: queries seen before, float [B, D], or ``(texts, videos)``, row i of both one pair;
                equal rows count once; or a :class:`mmvtr.arrays.inputs.Bank`.  Files and tables are
                read as those of the videos.  None: raw.
            ids: one id a video; default those of a file or table, else row numbers.

        Raises:
            TypeError, ValueError: arrays that are not matrices of numbers of one width, ids that do
                not fit, a transform that reads a bank which was not given.
        """
        if videos is None:
            if bank is None:
                raise ValueError('there is neither a gallery nor a bank')
            waiting = State(bank=read_bank(bank, None, self.geometry), why=WAITING)
            return self._change(
                lambda state: waiting._replace(generations=state.generations.refitted(0))
            )
        gallery, named = read_items(videos, ids, self.geometry)
        return self._change(
            lambda state: self._fitted(State(gallery, named, generations=state.generations), bank)
        )

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
        fresh = State(fitted=fitted, why=why)
        return self._change(lambda state: fresh._replace(generations=state.generations.refitted(0)))

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
        state = self._state
        if state.fitted is None:
            return torch.zeros(len(further))
        check_additive(state.fitted, self.geometry)
        check_width(further, state.bank.width, 'videos')
        return fitting.further(state.fitted, state.bank, further)

    def without_gallery(self, device: Union[str, torch.device] = 'cpu') -> Debiaser:
        """Return a copy on a device without the gallery, which holds only the part of the bank that
        biases of further items are computed from."""
        copied = copy.copy(self)
        bank, fitted = copied._state.bank, copied._state.fitted
        if bank is not None:
            bank = dataclasses.replace(bank.to(device), pairs=None)
            if fitted is None or not TRANSFORMS[fitted.transform].reads_items:
                bank = dataclasses.replace(bank, items=None)
        if fitted is not None:
            rows = None if fitted.rows is None else fitted.rows.to(device)
            fitted = fitted._replace(items=torch.zeros(0), rows=rows)
        copied._state = State(
            bank=bank, fitted=fitted, calibration=copied.calibration_, why=copied._state.why
        )
        return copied

    def of_no_items(self, bank: Bank, fitted: ItemBiases, why: str) -> Debiaser:
        """Return a Debiaser of these settings and no items, with a transform fitted elsewhere: for
        queries, biases of further items, and :meth:`save`."""
        empty, nothing = copy.copy(self), torch.zeros(0)
        absent = Absent(nothing.new_zeros(0, 2), bank.width)
        after = self._state.generations.refitted(0)
        fitted = fitted._replace(items=nothing)
        empty._state = State(bank=bank, fitted=fitted, why=why, generations=after, absent=absent)
        return empty

    @torch.no_grad()
    def refit(self, bank: Any) -> Debiaser:
        """Fit all current items to a new bank; return ``self``.

        Args:
            bank: see :meth:`fit`.  A calibration belongs to the former biases and is dropped,
                which :attr:`why_` says.
        """
        return self._change(lambda state: self._fitted(state.there(), bank))

    @torch.no_grad()
    def add(self, videos: Any, *, ids: Any = None) -> Debiaser:
        """Add items, with biases from the same bank; return ``self``.

        Other biases do not change, and a calibration is kept: :attr:`stale_` and :attr:`why_` say
        how many items came after the fit and after the calibration.

        Args:
            videos: float [n, D], or a source, see :meth:`fit`.
            ids: their ids; required if the gallery has ids.

        Raises:
            TypeError, ValueError: see :meth:`fit`; an id that exists already.
        """
        self._state.with_items()
        further, new = read_items(videos, ids, self.geometry)

        def with_further(state: State) -> State:
            if (new is None) != (state.with_items().ids is None):
                raise ValueError('ids must be given for all videos or for none')
            return changed(state, further=further, named=new)

        return self._change(with_further)

    @torch.no_grad()
    def remove(self, ids: Any) -> Debiaser:
        """Remove items; other biases and a calibration do not change; return ``self``.

        Args:
            ids: of the items; the gallery must have ids.

        Raises:
            TypeError, ValueError: an unknown id, or one that occurs twice; all items.
        """
        return self._change(lambda state: changed(state.with_items(), leaving=ids))

    @torch.no_grad()
    def update(self, videos: Any, *, ids: Any = None) -> Debiaser:
        """Replace the vectors of items, as a removal and an addition in one change; return
        ``self``.  The items are the last ones then.

        Args:
            videos, ids: see :meth:`add`; the gallery must have ids.

        Raises:
            TypeError, ValueError: see :meth:`add` and :meth:`remove`.
        """
        self._state.with_items()
        further, named = read_items(videos, ids, self.geometry)
        return self._change(
            lambda state: changed(state.with_items(), leaving=named, further=further, named=named)
        )

    def calibrate(self) -> Debiaser:
        """Calibrate P(right) of the places of lists on the bank's own pairs; return ``self``.

        Raises:
            ValueError: a bank without pairs, or with fewer than 50 different ones.
        """

        def calibrated(state: State) -> State:
            of = state.there()
            return state.calibrated(
                fit_topk_probabilities(of.bank, of.gallery, of.fitted, seed=self.seed)
            )

        return self._change(calibrated)

    def keep(self, calibration: Optional[TopKProbabilities]) -> None:
        """Keep a calibration that was fitted to these biases elsewhere; None = none."""
        self._change(lambda state: state.calibrated(calibration))

    def rows_of(self, ids: Any) -> Tensor:
        """Return the rows of items in :attr:`biases_`, :attr:`generations_` and
        :meth:`as_vectors`, int64 [n].

        Args:
            ids: of the items; the gallery must have ids.

        Raises:
            TypeError, ValueError: an unknown id, or one that occurs twice.
        """
        return self._state.rows_of(ids)

    def behind(self, ids: Any, generations: Any) -> Behind:
        """Return where an index differs from the gallery, by the numbers written beside its rows.

        Args:
            ids: ids in the index, [n] (row numbers if the gallery has none).
            generations: :attr:`generations_` of each at the time when it was written, int [n].

        Raises:
            TypeError, ValueError: no sequence of ids; not one generation for each.
        """
        state = self._state.with_items()
        numbers = state.generations.rows
        own_ids = range(len(numbers)) if state.ids is None else state.ids.tolist()
        return behind(own_ids, numbers, in_order(ids, 'ids'), in_order(generations, 'generations'))

    @property
    def ids_(self) -> Optional[np.ndarray]:
        """The ids of the items, [N]; None = row numbers."""
        return self._state.ids

    @property
    def generation_(self) -> int:
        return self._state.generations.last

    @property
    def generations_(self) -> Tensor:
        return self._state.generations.rows

    @property
    def stale_(self) -> Stale:
        state = self._state
        generations = state.generations
        return Stale.of(state.biases, generations.rows > generations.fit, generations.fitted)

    @property
    def calibration_(self) -> Optional[TopKProbabilities]:
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
        return self._state.biases

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
        return len(self._state.generations.rows)

    def __bool__(self) -> bool:
        return True  # without a gallery, too

    def __repr__(self) -> str:
        state = self._state
        if state.width is None and state.fitted is None:
            return f'Debiaser({self.transform!r}, geometry={self.geometry!r}), not fitted'
        size = f'{len(self)} items of width {state.width}'
        if state.gallery is None:
            size = f'{size} that are not here' if state.absent else 'without its gallery'
        return f'Debiaser({self.transform_ or "raw"}, {size}, {self.geometry})'

    @torch.no_grad()
    def scores(self, texts: Array) -> Array:
        """Return the transformed scores of all items for each text, float32 [Q, N]."""
        state = self._state.there()
        queries = self._read(texts, state)
        tiles = (score_tiles(part, state.gallery) for part in queries.split(QUERIES))
        whole = (torch.cat([tile for _, tile in x.parts()], dim=1) for x in tiles)
        return like(texts)(torch.cat([_transformed(state.fitted, x) for x in whole]))

    def asked_before(self, texts: Array) -> str:
        """Return a note if most of the texts, float [Q, D], are in the bank, else ``''``."""
        state, queries = self._state, read_vectors(texts, 'texts', self.geometry)
        if state.bank is None:
            return ''
        check_width(queries, state.bank.width, 'texts')
        return asked_before(state.bank.texts, queries.unit(), 'texts that ask')

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
        state, k = self._state.there(), checked_k(k)
        check_calibration(calibration, state.fitted)
        queries, back = self._read(texts, state), like(texts)
        return search(state, queries, k, calibration, strict, self._figures_of_bank, back)

    @torch.no_grad()
    def as_vectors(
        self,
        rows: Any = None,
        *,
        videos: Optional[Array] = None,
        out: Optional[np.ndarray] = None,
        dtype: Any = np.float32,
    ) -> Union[np.ndarray, list[np.ndarray]]:
        """Return items as [n, D + 1]: inner products with :meth:`query` are scores.

        FAISS, Qdrant, LanceDB, pgvector or Elasticsearch thus rank debiased, by inner product.  For
        ``'maxsim'``: n arrays [L, D + 1], for multi-vector engines with MaxSim.

        Args:
            rows: a slice, row numbers [n] or bool [N]; default all.
            videos: float [n, D], the vectors of these rows, if the gallery is not here
                (:meth:`load`).
            out: numpy [n, D + 1] to write to, such as a memory-mapped file; of any float type.
            dtype: of the result, if there is no ``out``: ``'float16'``, or one of ml_dtypes.

        Raises:
            IndexError: rows that are not there.
            TypeError, ValueError: a transform without the additive form, or another token-wise
                geometry; videos of other rows; an ``out`` of another shape.
        """
        return as_vectors(self._state.with_items(), self.geometry, rows, videos, out, dtype)

    def query(self, texts: Array, *, debiased: bool = True) -> Union[np.ndarray, list[np.ndarray]]:
        """Return texts as float32 [Q, D + 1] for :meth:`as_vectors`; the last entry is 1, or 0 for
        raw scores.  For ``'maxsim'``: Q arrays [L, D + 1], whose last entries sum to 1 or 0."""
        state = self._state.with_items()
        return as_queries(state, self.geometry, self._read(texts, state), float(debiased))

    def save(self, folder: Any) -> None:
        """Write the fitted transform without the gallery, or the bank if there is no gallery yet
        (:mod:`mmvtr.arrays.saved`)."""
        fixed = copy.copy(self)  # of one state
        if fixed.why_ != WAITING:
            fixed._state.with_items()
        saved.save(fixed, folder)

    @classmethod
    def load(cls, folder: Any, videos: Optional[Array] = None, *, ids: Any = None) -> Debiaser:
        """Return what :meth:`save` wrote (:mod:`mmvtr.arrays.saved`).

        Without its gallery it changes items, gives their biases, and exports rows whose vectors are
        given; it does not search, refit or calibrate.  A bank saved without a gallery is fitted to
        ``videos``.

        Args:
            folder: the folder.
            videos: the gallery, float [N, D]: in its order, or in any with ``ids``.
            ids: one id a video.

        Raises:
            FileNotFoundError: the folder does not exist.
            RuntimeError: a file that is damaged, cut, of another version, or of another Debiaser.
            ValueError: another gallery (names the first row or id that differs).
        """
        return saved.load(cls, folder, videos, ids)

    # -- shared by the methods above --------------------------------------------------------

    def _change(self, make: Callable[[State], State]) -> Debiaser:
        """Replace the state by what is made of it: again, if another thread was faster."""
        while True:
            before = self._state
            after = make(before)
            with _REPLACING:
                if self._state is before:
                    self._state = after
                    return self

    def _fitted(self, state: State, bank: Any) -> State:
        gallery = state.gallery
        bank = None if bank is None else read_bank(bank, gallery.width, self.geometry)
        chosen = fitting.chosen(self.transform, self.options, bank, gallery.width, self.seed)
        fitted, why = fitting.fit_bank(chosen, bank, gallery)
        if state.calibration is not None:
            why += '; the calibration of the former biases is gone'
        new = state.generations.refitted(len(gallery))
        return state._replace(bank=bank, fitted=fitted, why=why, calibration=None, generations=new)

    def _figures_of_bank(self, state: State) -> Tensor:
        """Return what the bank's texts find in the gallery (Asked.figures)."""
        gallery, calibration = state.gallery, state.calibration
        read, calibrated, figures = self._of_bank
        if read is not gallery or calibrated is not calibration:
            asked = calibration.asked
            top = score_tiles(state.bank.texts[asked.rows], gallery, 'bank').best(DEPTH)[0]
            figures = asked.figures(top, len(gallery))
            self._of_bank = gallery, calibration, figures
        return figures

    def _read(self, texts: Array, state: State) -> Tensor:
        queries = read_vectors(texts, 'texts', self.geometry)
        check_width(queries, state.width, 'texts')
        return queries.unit()


def _transformed(fitted: Optional[ItemBiases], scores: Tensor) -> Tensor:
    if fitted is None:
        return scores
    if scores.dim() != 2 or scores.shape[1] != len(fitted.items):
        raise ValueError(
            f'scores {list(scores.shape)} must be [queries, {len(fitted.items)}], the items fitted'
        )
    return fitted.transform_scores(scores)
