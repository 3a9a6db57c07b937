"""The manifest ``store.json``, the one small file that defines the valid state of a store's folder.

An add, a delete or a refit writes new files beside the old ones; then a new manifest replaces the
old one by a rename.  So a reader, or a process that opens the folder after a kill, sees all of the
change or nothing of it.

The file is not trusted: the names in it must be in its folder, and no value is used before
:func:`checked` has validated it.
"""

from __future__ import annotations

import io
import json
import math
import re
import shutil
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Callable, Container, Optional, Union

from mmvtr.errors import UserError
from mmvtr.functional.transforms.transform_table import ADDITIVE, checked_options
from mmvtr.storage import file_digest, write_atomically
from mmvtr.storage.digests import ROOM, own_digest_holds, write_with_digest
from mmvtr_gallery.store.calibrated import stored_calibration
from mmvtr_gallery.store.items import GEOMETRIES, TYPES, checked_ids, is_column
from mmvtr_gallery.store.online import reservoir_of
from mmvtr_gallery.store.refits import options_of
from mmvtr_gallery.store.undoing import KINDS

#: Name and format version; format 1 had no digests, format 2 one file of items.
NAME, FORMAT = 'store.json', 3
#: Subfolder in which a store is built that will replace another one.
PART = '.new'

#: Patterns of a store's file names; the number is that of the change that wrote the file.
FILES = dict(
    biases=r'biases-\d+\.f32',
    normaliser=r'normaliser-\d+\.safetensors',
    items=r'items-\d+\.safetensors',
    queue=r'queue(-\d+)?\.safetensors',
    config=r'config-\d+\.json',
    table=r'items(-\d+)?\.lance',  # in stores of older versions
    undo=r'undo-\d+\.safetensors',
)


@dataclass(frozen=True)
class Manifest:
    """The valid state of a store.

    Attributes:
        dim: D of the vectors.
        model: fingerprint of the model that made them; None: unknown.
        about: source of the vectors.
        commit: number of the change; each change adds 1.
        parts: names of the files of the items, and the number of items in each.
        types: types of metadata columns, by name.
        biases: name of the file of biases.
        normaliser: name of the file of the Debiaser; None: raw scores.
        refit: options of the last refit.
        online: options of the sample of served queries; None: no sample.
        sampled: whether the file of served queries has been written.
        index: options of the approximate index; None: there is none.
        queue: name of the file of served queries.
        config: name of the file of the model's config; None: not given.
        before: ``normaliser``, ``refit`` and ``calibration`` before the last refit;
            None: there was none.
        undo: ``kind`` and ``items`` of the last change, and the ``file`` to undo it (None for a
            refit and for a change of too many items); None: not recorded.
        calibration: the calibration for P(match), from ``Calibration.to_dict``; None: not fitted.
        quarantined: ids that searches exclude, sorted.
        geometry: ``'cosine'`` or ``'inner_product'``; None: a store of an older version, which
            ranks by inner products.
        digests: SHA-256 by name of files that do not contain their own.
    """

    dim: int
    model: Optional[str] = None
    about: dict[str, Any] = field(default_factory=dict)
    commit: int = 0
    parts: list[list[Any]] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    biases: str = 'biases-0.f32'
    normaliser: Optional[str] = None
    refit: Optional[dict[str, Any]] = None
    online: Optional[dict[str, Any]] = None
    sampled: bool = False
    index: Optional[dict[str, Any]] = None
    queue: str = 'queue.safetensors'
    config: Optional[str] = None
    before: Optional[dict[str, Any]] = None
    undo: Optional[dict[str, Any]] = None
    calibration: Optional[dict[str, Any]] = None
    quarantined: list[str] = field(default_factory=list)
    geometry: Optional[str] = None
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return the number of items."""
        return sum(size for _, size in self.parts)

    def write(self, folder: Union[str, Path]) -> None:
        """Make this state the valid one, which commits a change."""
        text = json.dumps(dict(sha256=ROOM, format=FORMAT, **asdict(self)), indent=1)
        write_atomically(Path(folder, NAME), lambda file: write_with_digest(text.encode(), file))

    @classmethod
    def read(cls, folder: Union[str, Path]) -> 'Manifest':
        """Return the valid manifest of a folder.

        Raises:
            FileNotFoundError: it holds no store.
            RuntimeError: the file is damaged, of another version, or names files outside the
                folder.
        """
        path = Path(folder, NAME)
        try:
            return checked(read_sealed(path, (1, 2, FORMAT), unsealed=1), path)
        except FileNotFoundError:
            raise FileNotFoundError(f'{folder} holds no store: {NAME} is missing') from None

    def files(self) -> set[str]:
        """Return the names of a store's files."""
        earlier = (self.before or {}).get('normaliser')
        undo = (self.undo or {}).get('file')
        names = {self.biases, self.normaliser, self.queue, self.config, earlier, undo}
        return {*names, *(name for name, _ in self.parts)} - {None}


def read_sealed(
    path: Path, formats: tuple[int, ...], unsealed: Optional[int] = None
) -> dict[str, Any]:
    """Return the content of a json file that contains its own digest.

    Args:
        path: the file.
        formats: versions that can be read; the last one is written now.
        unsealed: the version that has no digest.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it is damaged, or of another format.
    """
    try:
        raw = path.read_bytes()
        said = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UserError(f'{path} is damaged: {str(error)[:80]}') from error
    version = said.pop('format', None) if isinstance(said, dict) else None
    if version not in formats or isinstance(version, bool):
        raise UserError(
            f'{path} is of format {str(version)[:80]}, expected {formats[-1]}: it is damaged, or '
            'of another version'
        )
    if version != unsealed and not (
        said.pop('sha256', None) and own_digest_holds(raw, io.BytesIO())
    ):
        raise UserError(
            f'{path} is damaged: its bytes do not have the SHA-256 that it was written with; '
            'export the gallery again'
        )
    return said


def checked(said: dict[str, Any], path: Path) -> Manifest:
    """Return the manifest in a file's content, with every value validated.

    Raises:
        RuntimeError: an unknown key, or an invalid value (names it); a missing key of the format,
            or a file name outside the folder.
    """
    said = _of_before(said, path)
    missing = {one.name for one in fields(Manifest)} - said.keys() - _LATER
    strange = said.keys() - {one.name for one in fields(Manifest)}
    if missing or strange:
        raise UserError(
            f'{path} is damaged, or of another version: it lacks {sorted(missing)[:5]} and has '
            f'{str(sorted(strange)[:5])[:200]}'
        )
    manifest = Manifest(**said)
    for name, fits in _RULES.items():
        try:
            good = fits(getattr(manifest, name))
        except (TypeError, ValueError, KeyError, OverflowError, AttributeError):
            good = False
        if not good:
            raise UserError(
                f'{path} is damaged: {name} is {repr(getattr(manifest, name))[:80]}, which cannot '
                'be; export the gallery again'
            )
    return manifest


def _of_before(said: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a file's content with the current keys, converted from an earlier format if needed.

    Raises:
        RuntimeError: the store uses LanceDB's files.
    """
    if said.get('engine') == 'lance':
        raise UserError(
            f"{path.parent} keeps its items in LanceDB's files, as stores once did: convert it by "
            f'python -m mmvtr_gallery.store.from_lance {path.parent} (needs lancedb), or export it '
            'again with --replace'
        )
    if 'engine' not in said:
        return said
    rest = {name: value for name, value in said.items() if name not in _EARLIER}
    return dict(rest, parts=[[said.get('items'), said.get('count')]])


def refuse_link(path: Path) -> None:
    """Raise RuntimeError if a file of a store is a link, which could lead out of the folder."""
    if path.is_symlink():
        raise UserError(
            f'{path} is a link, but the files of a store lie in its own folder: put a copy there'
        )


def check_config(folder: Path, manifest: Manifest) -> None:
    """Raise RuntimeError unless a store's config has the SHA-256 it was written with."""
    name = manifest.config
    if name is not None and file_digest(folder / name) != manifest.digests.get(name):
        raise UserError(
            f'{folder / name} is damaged: its bytes do not have the SHA-256 that they were written '
            'with; export the gallery again'
        )


def sweep(folder: Union[str, Path], valid: Container[str]) -> None:
    """Remove store files and tables in a folder that are not valid (any more).

    Files that cannot be removed are left for the next time, as nothing refers to them.
    """
    for path in Path(folder).iterdir():
        known = any(re.fullmatch(pattern, path.name) for pattern in FILES.values())
        if known and path.name not in valid:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                _unlink(path)


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        pass


# -- what a value may be -----------------------------------------------------------------------


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _whole(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value < 2**62


def _maybe(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


def _named(key: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and bool(re.fullmatch(FILES[key], value))


def _place(value: Any) -> bool:
    """Return whether a value is the name of a file somewhere below the folder."""
    word = r'(?!\.\.?(/|$))[\w.-]+'
    return bool(re.fullmatch(rf'{word}(/{word})*', value, re.ASCII))


def _parts(value: Any) -> bool:
    return all(_named('items')(name) and _whole(size) for name, size in value)


def _types(value: Any) -> bool:
    return all(is_column(name) and kind in TYPES for name, kind in value.items())


def _refit(value: Any) -> bool:
    """Return whether a value is a refit with numeric options; older ones had other transforms."""
    transform = value['transform']
    others = ('transform', 'num_queries', 'online', 'asked')
    options = {k: x for k, x in value.items() if k not in others}
    if (
        value.get('asked') not in (None, 'auto')
        or transform not in (None, *ADDITIVE)
        or not all(map(_maybe(_number), options.values()))
    ):
        return False
    if transform is not None:
        checked_options(transform, options_of(value))
    return True


def _before(value: Any) -> bool:
    return (
        _maybe(_named('normaliser'))(value['normaliser'])
        and _maybe(_refit)(value['refit'])
        and _maybe(_calibration)(value.get('calibration'))
    )


def _undo(value: Any) -> bool:
    return (
        value['kind'] in KINDS
        and _maybe(_whole)(value['items'])
        and isinstance(value.get('undone', False), bool)
        and _quarantined(value.get('held', []))
        and _maybe(_named('undo'))(value['file'])
    )


def _calibration(value: Any) -> bool:
    return stored_calibration(value) is not None


def _quarantined(value: Any) -> bool:
    return value == [] or isinstance(value, list) and value == sorted(checked_ids(value))


def _online(value: Any) -> bool:
    numbers = all(_maybe(_whole)(x) for x in value.values())
    return numbers and 'refit_every' in value and reservoir_of(1, value) is not None


def _index(value: Any) -> bool:
    numbers = all(_whole(value[x], 1) for x in ('partitions', 'probes', 'candidates'))
    return numbers and isinstance(value['form'], str)


def _digests(value: Any) -> bool:
    return all(_place(name) and re.fullmatch('[0-9a-f]{64}', x) for name, x in value.items())


#: Keys that older versions do not write.
_LATER = {
    *('queue', 'config', 'before', 'digests', 'calibration', 'undo', 'quarantined'),
    *('sampled', 'geometry'),
}
#: Keys that only older versions write.
_EARLIER = {'engine', 'items', 'next', 'count', 'highest', 'norms', 'table'}
_RULES: dict[str, Callable[[Any], bool]] = dict(
    dim=lambda value: _whole(value, 1) and value < 2**20,
    model=_maybe(lambda value: isinstance(value, str)),
    about=lambda value: isinstance(value, dict),
    commit=_whole,
    parts=_parts,
    types=_types,
    biases=_named('biases'),
    normaliser=_maybe(_named('normaliser')),
    refit=_maybe(_refit),
    online=_maybe(_online),
    sampled=lambda value: isinstance(value, bool),
    index=_maybe(_index),
    queue=_named('queue'),
    config=_maybe(_named('config')),
    before=_maybe(_before),
    undo=_maybe(_undo),
    calibration=_maybe(_calibration),
    quarantined=_quarantined,
    geometry=_maybe(GEOMETRIES.__contains__),
    digests=_digests,
)
