"""A fitted Debiaser on disk: ``debiaser.json`` and ``debiaser.safetensors``, which hold no code.

The gallery is not written: it may be larger than memory, and belongs to the user.  To recognise it,
each row's length and its product with one fixed vector are written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays.inputs import GEOMETRIES, Bank, Vectors, read_ids, read_vectors
from mmvtr.arrays.list_chances import LENGTHS, ListChances
from mmvtr.arrays.shift import Asked
from mmvtr.arrays.state import State
from mmvtr.errors import UserError
from mmvtr.functional.transforms.item_biases import ItemBiases
from mmvtr.functional.transforms.transform import renamed
from mmvtr.functional.transforms.transform_table import OF_BANK, TRANSFORMS

#: Version of the layout; files of another version are refused.
VERSION = 1
FACTS, TENSORS = 'debiaser.json', 'debiaser.safetensors'
#: Fields of the json file.
FIELDS = {
    'version', 'transform', 'geometry', 'seed', 'options', 'why', 'fitted', 'ids', 'given',
    'temperature', 'content',
}  # fmt: skip
#: Tensors of a calibration of lists.
CHANCES = ('lines', 'shares', 'right', 'levels')
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
    held = content_of(debiaser)
    if debiaser._state.gallery is not None:
        held['gallery'] = _traces(debiaser._state.gallery)
    text = text_of(debiaser, held)
    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_tensors(held, folder / TENSORS)
    write_text(folder / FACTS, text + '\n')


def load(kind: type, folder: Union[str, Path], videos: Any, ids: Any = None) -> Any:
    """Return the Debiaser that :func:`save` wrote.

    Args:
        kind: the class Debiaser.
        folder: the folder that was written.
        videos: the same gallery, float [N, D], added items included; for a bank saved without a
            gallery, any gallery of its width.
        ids: their ids; default the saved ones.

    Raises:
        FileNotFoundError: the folder does not exist.
        RuntimeError: a file that is damaged, cut, of another version, or of another Debiaser.
        ValueError: another gallery (names the first row that differs); ids that do not fit.
    """
    folder = Path(folder)
    path = folder / FACTS
    if not path.is_file():
        raise FileNotFoundError(f'{path} does not exist: Debiaser.save writes it')
    facts = facts_of(path.read_bytes(), path)
    from mmvtr.storage import read_tensors

    held = read_tensors(folder / TENSORS, kind='debiaser')
    made = restored(kind, facts, held, folder)
    if 'gallery' not in held:
        if facts['fitted'] is not None:
            raise UserError(
                f'{folder} was fitted to a gallery, and holds no digest by which to recognise it'
            )
        return made.fit(videos, made.bank_, ids=ids)
    gallery = read_vectors(videos, 'videos', facts['geometry'])
    _check_gallery(gallery, held['gallery'], folder)
    named = read_ids(facts['ids'] if ids is None else ids, len(gallery))
    made._state = made._state._replace(gallery=gallery, ids=named)
    return made


def content_of(debiaser: Any) -> dict[str, Tensor]:
    """Return the tensors of a fitted Debiaser by name, without its gallery."""
    _, _, bank, fitted, chances, _ = debiaser._state
    tensors: dict[str, Optional[Tensor]] = {
        ASKED + name: x for name, x in debiaser.options.items() if isinstance(x, Tensor)
    }
    if fitted is not None:
        tensors.update(items=fitted.items, active=fitted.active, rows=fitted.rows)
        tensors['bank_marginals'] = fitted.options.get('bank_marginals')
    if bank is not None:
        tensors.update(texts=bank.texts, bank_items=bank.items, pairs=bank.pairs)
        tensors['counts'] = bank.counts
    if chances is not None:
        tensors.update({name: getattr(chances, name) for name in CHANCES})
        numbers = (chances.depth, chances.items, chances.most)
        tensors.update(zip(NUMBERS, map(torch.tensor, numbers)))
        if chances.asked is not None:
            tensors.update(asked_rows=chances.asked.rows, asked_own=chances.asked.own)
            tensors['asked_items'] = torch.tensor(chances.asked.items)
    return {name: x for name, x in tensors.items() if x is not None}


def text_of(debiaser: Any, held: dict[str, Tensor]) -> str:
    """Return a Debiaser's fields other than tensors, as json.

    Raises:
        TypeError: ids other than texts and numbers.
    """
    _, ids, bank, fitted, chances, why = debiaser._state
    told = None
    if fitted is not None:
        plain = {k: x for k, x in fitted.options.items() if not isinstance(x, Tensor)}
        told = dict(transform=fitted.transform, options=plain, shift=fitted.shift)
    facts = dict(
        version=VERSION,
        transform=debiaser.transform,
        geometry=debiaser.geometry,
        seed=debiaser.seed,
        options={k: x for k, x in debiaser.options.items() if not isinstance(x, Tensor)},
        why=why,
        fitted=told,
        ids=None if ids is None else _plain_ids(ids),
        given=None if bank is None else bank.given,
        temperature=None if chances is None else chances.temperature,
        content={name: list(x.shape) for name, x in held.items()},
    )
    return json.dumps(facts, indent=1)


def _plain_ids(ids: np.ndarray) -> list[Any]:
    """Return ids as json gives them back."""
    plain = [x.item() if isinstance(x, np.generic) else x for x in ids.tolist()]
    for x in plain:
        if not isinstance(x, (str, int, float)):
            raise TypeError(f'ids must be texts or numbers to be saved, not {x!r:.80}')
    return plain


def restored(kind: type, facts: dict[str, Any], held: dict[str, Tensor], where: Path) -> Any:
    """Return a Debiaser without its gallery.

    Args:
        kind: the class Debiaser.
        facts: from :func:`facts_of`.
        held: its tensors by name.
        where: the path that errors name.

    Raises:
        RuntimeError: facts and tensors of different Debiasers.
    """
    if {name: list(x.shape) for name, x in held.items()} != facts['content']:
        raise UserError(f'{where}: its description and its tensors do not belong to one Debiaser')
    asked = {name.removeprefix(ASKED): x for name, x in held.items() if name.startswith(ASKED)}
    asked = renamed({**facts['options'], **asked})
    how = dict(geometry=facts['geometry'], seed=facts['seed'])
    made = kind(facts['transform'], **how, **asked)
    bank = fitted = chances = None
    if 'texts' in held:
        own = (held.get('bank_items'), held.get('pairs'))
        bank = Bank(held['texts'], facts['given'], *own, facts['geometry'], held.get('counts'))
    if facts['fitted'] is not None:
        options = renamed(facts['fitted']['options'])
        if 'bank_marginals' in held:
            options['bank_marginals'] = held['bank_marginals']
        known = TRANSFORMS[facts['fitted']['transform']].options
        options = {name: options[name] for name in known if name in options}
        fitted = ItemBiases(
            facts['fitted']['transform'],
            options,
            held['items'],
            facts['fitted']['shift'],
            held.get('active'),
            held.get('rows'),
        )
    if facts['temperature'] is not None:
        if len(held['lines']) != len(LENGTHS):
            raise UserError(f'{where} was calibrated by another version: calibrate it again')
        numbers = (int(held.get(name, 0)) for name in NUMBERS)
        chances = ListChances(facts['temperature'], *(held[name] for name in CHANCES), *numbers)
        if 'asked_rows' in held:
            asked = Asked(held['asked_rows'], held['asked_own'], int(held['asked_items']))
            chances = chances._replace(asked=asked)
    made._state = State(bank=bank, fitted=fitted, calibration=chances, why=facts['why'])
    return made


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
    if version != VERSION:
        raise UserError(f'{path} is of version {str(version)[:20]!r}, this reads {VERSION}')
    if {*facts} != FIELDS:
        wrong = sorted({*facts} ^ FIELDS)[:4]
        raise UserError(f'{path} is not a Debiaser of version {VERSION}: fields {wrong} differ')
    of_fitted = (facts['fitted'] or dict(transform=None)).get('transform')
    if facts['transform'] not in ('auto', None, *OF_BANK) or of_fitted not in (None, *OF_BANK):
        raise UserError(f'{path} names an unknown transform, {str(facts["transform"])[:80]!r}')
    if facts['geometry'] not in GEOMETRIES:
        raise UserError(f'{path} names an unknown geometry, {str(facts["geometry"])[:80]!r}')
    return facts


def _traces(gallery: Vectors) -> Tensor:
    """Return a fingerprint of each row, float32 [N, 2]: length, product with a fixed vector."""
    probe = np.random.default_rng(0).normal(size=gallery.width) / gallery.width**0.5
    probe = torch.from_numpy(probe.astype(np.float32))
    parts = []
    for start in range(0, len(gallery), 2**14):
        rows = gallery.unit(slice(start, start + 2**14)).cpu()
        if rows.dim() == 3:  # independent of the tokens' order and padding
            rows = (rows[..., :-1] * rows[..., -1:]).sum(1)
        parts.append(torch.stack([rows.norm(dim=1), rows @ probe], dim=1))
    found = torch.cat(parts)
    if gallery.weights:
        return found
    found[:, 0] *= torch.cat([x.cpu() for x in gallery.lengths])
    return found


def _check_gallery(gallery: Vectors, known: Tensor, folder: Path) -> None:
    if len(gallery) != len(known):
        raise ValueError(f'{folder} was fitted to {len(known)} videos, not {len(gallery)}')
    wrong = ~torch.isclose(_traces(gallery), known, rtol=CLOSE, atol=CLOSE).all(1)
    if wrong.any():
        raise ValueError(
            f'{folder} was fitted to another gallery: {int(wrong.sum())} of {len(known)} videos '
            f'differ, the first is row {int(wrong.nonzero()[0])}'
        )
