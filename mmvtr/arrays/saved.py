"""A fitted Debiaser on disk: ``debiaser.json`` and ``debiaser.safetensors``, which hold no code.

The gallery is not written: it may be larger than memory, and belongs to the user.  To recognise it,
each row's length and its product with one fixed vector are written.  A gallery with ids is matched
by them, so its rows may come in another order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays.generations import Generations
from mmvtr.arrays.inputs import GEOMETRIES, Bank, Vectors, read_ids, read_items
from mmvtr.arrays.shift import Asked
from mmvtr.arrays.state import Absent, State
from mmvtr.arrays.topk_probabilities import LENGTHS, TopKProbabilities
from mmvtr.errors import UserError
from mmvtr.functional.transforms.item_biases import ItemBiases
from mmvtr.functional.transforms.transform import renamed
from mmvtr.functional.transforms.transform_table import OF_BANK, TRANSFORMS

#: Version of the layout, and the versions that are read; others are refused.
VERSION, READ = 2, (1, 2)
FACTS, TENSORS = 'debiaser.json', 'debiaser.safetensors'
#: Fields of the json file.
FIELDS = {
    'version', 'transform', 'geometry', 'seed', 'options', 'why', 'fitted', 'ids', 'given',
    'temperature', 'content', 'width', 'generations',
}  # fmt: skip
#: Those that files of version 1 lack, and their values there.
LATER = dict(width=None, generations=None)
#: Tensors of a calibration of lists.
CALIBRATION = ('lines', 'shares', 'right', 'levels')
#: Its numbers, which older files lack: depth, items, most.
NUMBERS = ('depth', 'calibrated', 'most')
#: Prefix of tensors among the options that were asked for.
ASKED = 'asked.'
#: Relative difference allowed between two readings of one row.
CLOSE = 1e-3


def save(debiaser: Any, folder: Union[str, Path]) -> None:
    """Write a fitted Debiaser; a file appears only when it is complete.

    Raises:
        TypeError: ids other than texts and numbers.
        OSError: the folder cannot be written.
    """
    from mmvtr.storage import naming, write_tensors, write_text  # imports safetensors

    folder = Path(folder)
    tensors, state = content_of(debiaser), debiaser._state
    if state.gallery is not None:
        tensors['gallery'] = traces(state.gallery)
    elif state.absent is not None:
        tensors['gallery'] = state.absent.traces
    text = text_of(debiaser, tensors)
    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_tensors(tensors, folder / TENSORS)
    write_text(folder / FACTS, text + '\n')


def load(kind: type, folder: Union[str, Path], videos: Any = None, ids: Any = None) -> Any:
    """Return the Debiaser that :func:`save` wrote.

    Args:
        kind: the class Debiaser.
        folder, videos, ids: see :meth:`mmvtr.arrays.Debiaser.load`.

    Raises:
        FileNotFoundError, RuntimeError, ValueError: see :meth:`mmvtr.arrays.Debiaser.load`.
    """
    folder = Path(folder)
    path = folder / FACTS
    if not path.is_file():
        raise FileNotFoundError(f'{path} does not exist: Debiaser.save writes it')
    facts = facts_of(path.read_bytes(), path)
    from mmvtr.storage import read_tensors

    tensors = read_tensors(folder / TENSORS, kind='debiaser')
    debiaser = restored(kind, facts, tensors, folder)
    if 'gallery' not in tensors:
        if facts['fitted'] is not None:
            raise UserError(
                f'{folder} was fitted to a gallery, and holds no digest by which to recognise it'
            )
        return debiaser if videos is None else debiaser.fit(videos, debiaser.bank_, ids=ids)
    if videos is not None:
        gallery, named = read_items(videos, ids, facts['geometry'])
        debiaser._state = _attached(debiaser._state, gallery, named, folder)
    return debiaser


def _attached(state: State, gallery: Vectors, named: Optional[np.ndarray], folder: Path) -> State:
    """Return a state read from a folder with its gallery, in the order of the gallery."""
    saved_traces = state.absent.traces
    if state.ids is None or named is None:
        check_gallery(gallery, saved_traces, folder)
        named = state.ids if named is None else named
        return state._replace(gallery=gallery, ids=named, absent=None)
    there = {*state.ids.tolist()}
    new = [x for x in named.tolist() if x not in there]
    lost = [*there.difference(named.tolist())]
    for some, problem in ((new, 'are not among those saved'), (lost, 'are missing')):
        if some:
            raise ValueError(
                f'{folder} was fitted to {len(there)} videos: {len(some)} ids {problem}, such as '
                f'{str(some[0])[:80]!r}: load(folder) alone, then add() or remove() them'
            )
    rows = state.rows_of(named)
    check_gallery(gallery, saved_traces[rows], folder)
    fitted = state.fitted
    if fitted is not None:
        active = None if fitted.active is None else fitted.active[rows]
        fitted = fitted._replace(items=fitted.items[rows], active=active)
    after = state.generations._replace(rows=state.generations.rows[rows])
    return state._replace(gallery=gallery, ids=named, fitted=fitted, generations=after, absent=None)


def content_of(debiaser: Any) -> dict[str, Tensor]:
    """Return the tensors of a fitted Debiaser by name, without its gallery."""
    state = debiaser._state
    bank, fitted, calibration = state.bank, state.fitted, state.calibration
    tensors: dict[str, Optional[Tensor]] = {
        ASKED + name: x for name, x in debiaser.options.items() if isinstance(x, Tensor)
    }
    if fitted is not None:
        tensors.update(items=fitted.items, active=fitted.active, rows=fitted.rows)
        tensors['bank_marginals'] = fitted.options.get('bank_marginals')
    if len(state.generations.rows):
        tensors['generations'] = state.generations.rows
    if bank is not None:
        tensors.update(texts=bank.texts, bank_items=bank.items, pairs=bank.pairs)
        tensors['counts'] = bank.counts
    if calibration is not None:
        tensors.update({name: getattr(calibration, name) for name in CALIBRATION})
        numbers = (calibration.depth, calibration.items, calibration.most)
        tensors.update(zip(NUMBERS, map(torch.tensor, numbers)))
        if calibration.asked is not None:
            tensors.update(asked_rows=calibration.asked.rows, asked_own=calibration.asked.own)
            tensors['asked_items'] = torch.tensor(calibration.asked.items)
    return {name: x for name, x in tensors.items() if x is not None}


def text_of(debiaser: Any, tensors: dict[str, Tensor]) -> str:
    """Return a Debiaser's fields other than tensors, as json.

    Raises:
        TypeError: ids other than texts and numbers.
    """
    state = debiaser._state
    ids, bank, fitted, calibration = state.ids, state.bank, state.fitted, state.calibration
    fit = None
    if fitted is not None:
        plain = {k: x for k, x in fitted.options.items() if not isinstance(x, Tensor)}
        fit = dict(transform=fitted.transform, options=plain, shift=fitted.shift)
    facts = dict(
        version=VERSION,
        transform=debiaser.transform,
        geometry=debiaser.geometry,
        seed=debiaser.seed,
        options={k: x for k, x in debiaser.options.items() if not isinstance(x, Tensor)},
        why=state.why,
        fitted=fit,
        ids=None if ids is None else _plain_ids(ids),
        given=None if bank is None else bank.given,
        temperature=None if calibration is None else calibration.temperature,
        content={name: list(x.shape) for name, x in tensors.items()},
        width=state.width,
        generations=[*state.generations[1:]],
    )
    return json.dumps(facts, indent=1)


def _plain_ids(ids: np.ndarray) -> list[Any]:
    """Return ids as json gives them back."""
    plain = [x.item() if isinstance(x, np.generic) else x for x in ids.tolist()]
    for x in plain:
        if not isinstance(x, (str, int, float)):
            raise TypeError(f'ids must be texts or numbers to be saved, not {x!r:.80}')
    return plain


def restored(kind: type, facts: dict[str, Any], tensors: dict[str, Tensor], where: Path) -> Any:
    """Return a Debiaser without its gallery.

    Args:
        kind: the class Debiaser.
        facts: from :func:`facts_of`.
        tensors: its tensors by name.
        where: the path that errors name.

    Raises:
        RuntimeError: facts and tensors of different Debiasers.
    """
    if {name: list(x.shape) for name, x in tensors.items()} != facts['content']:
        raise UserError(f'{where}: its description and its tensors do not belong to one Debiaser')
    asked = {name.removeprefix(ASKED): x for name, x in tensors.items() if name.startswith(ASKED)}
    asked = renamed({**facts['options'], **asked})
    how = dict(geometry=facts['geometry'], seed=facts['seed'])
    debiaser = kind(facts['transform'], **how, **asked)
    bank = fitted = calibration = None
    if 'texts' in tensors:
        items, pairs, counts = (tensors.get(name) for name in ('bank_items', 'pairs', 'counts'))
        bank = Bank(tensors['texts'], facts['given'], items, pairs, facts['geometry'], counts)
    if facts['fitted'] is not None:
        options = renamed(facts['fitted']['options'])
        if 'bank_marginals' in tensors:
            options['bank_marginals'] = tensors['bank_marginals']
        order = TRANSFORMS[facts['fitted']['transform']].options
        options = {name: options[name] for name in order if name in options}
        fitted = ItemBiases(
            facts['fitted']['transform'],
            options,
            tensors['items'],
            facts['fitted']['shift'],
            tensors.get('active'),
            tensors.get('rows'),
        )
    if facts['temperature'] is not None:
        if len(tensors['lines']) != len(LENGTHS):
            raise UserError(f'{where} was calibrated by another version: calibrate it again')
        numbers = (int(tensors.get(name, 0)) for name in NUMBERS)
        calibration = TopKProbabilities(
            facts['temperature'], *(tensors[name] for name in CALIBRATION), *numbers
        )
        if 'asked_rows' in tensors:
            asked = Asked(tensors['asked_rows'], tensors['asked_own'], int(tensors['asked_items']))
            calibration = calibration._replace(asked=asked)
    traces, absent = tensors.get('gallery'), None
    count = 0 if traces is None else len(traces)
    if facts['generations'] is None:
        made_by = Generations().refitted(count)
        if calibration is not None:
            made_by = made_by.recalibrated(True)
    else:
        rows = tensors.get('generations', torch.zeros(0, dtype=torch.int64))
        made_by = Generations(rows, *facts['generations'])
    width = facts['width']
    if traces is not None:
        if width is None and bank is not None:
            width = bank.width
        absent = Absent(traces, width)
    ids = read_ids(facts['ids'], count)
    debiaser._state = State(None, ids, bank, fitted, calibration, facts['why'], made_by, absent)
    return debiaser


def facts_of(raw: bytes, path: Path) -> dict[str, Any]:
    """Return the fields that :func:`text_of` wrote.

    Args:
        raw: json.
        path: the path that errors name.

    Raises:
        RuntimeError: it is damaged, of another version, or names an unknown transform or geometry.
    """
    try:
        facts = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UserError(f'{path} is damaged or cut: {error}') from error
    version = facts.get('version') if isinstance(facts, dict) else None
    if version not in READ:
        raise UserError(f'{path} is of version {str(version)[:20]!r}, this reads {VERSION}')
    if version == 1:
        facts = {**LATER, **facts}
    if {*facts} != FIELDS:
        wrong = sorted({*facts} ^ FIELDS)[:4]
        raise UserError(f'{path} is not a Debiaser of version {VERSION}: fields {wrong} differ')
    of_fitted = (facts['fitted'] or dict(transform=None)).get('transform')
    if facts['transform'] not in ('auto', None, *OF_BANK) or of_fitted not in (None, *OF_BANK):
        raise UserError(f'{path} names an unknown transform, {str(facts["transform"])[:80]!r}')
    if facts['geometry'] not in GEOMETRIES:
        raise UserError(f'{path} names an unknown geometry, {str(facts["geometry"])[:80]!r}')
    return facts


def traces(gallery: Vectors) -> Tensor:
    """Return a fingerprint of each row, float32 [N, 2]: length, product with a fixed vector."""
    probe = np.random.default_rng(0).normal(size=gallery.width) / gallery.width**0.5
    probe = torch.from_numpy(probe.astype(np.float32))
    parts = []
    for start in range(0, len(gallery), 2**14):
        rows = gallery.unit(slice(start, start + 2**14)).cpu()
        if rows.dim() == 3:  # independent of the tokens' order and padding
            rows = (rows[..., :-1] * rows[..., -1:]).sum(1)
        parts.append(torch.stack([rows.norm(dim=1), rows @ probe], dim=1))
    stacked = torch.cat(parts)
    if gallery.weighted:
        return stacked
    stacked[:, 0] *= gallery.lengths
    return stacked


def check_gallery(gallery: Vectors, expected: Tensor, folder: Any) -> None:
    """Raise ValueError unless the :func:`traces` of vectors are as expected, float32 [N, 2]."""
    if len(gallery) != len(expected):
        raise ValueError(f'{folder} was fitted to {len(expected)} videos, not {len(gallery)}')
    wrong = ~torch.isclose(traces(gallery), expected, rtol=CLOSE, atol=CLOSE).all(1)
    if wrong.any():
        raise ValueError(
            f'{folder} was fitted to another gallery: {int(wrong.sum())} of {len(expected)} videos '
            f'differ, the first is row {int(wrong.nonzero()[0])}'
        )
