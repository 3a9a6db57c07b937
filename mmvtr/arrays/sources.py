"""Vectors and ids as users have them: files of parquet, Arrow or npy, and tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple, Optional, Sequence, Union

import numpy as np

#: Names of the column of ids that is read without being named.
ID = ('id', 'ids')
#: Suffixes of files of Arrow's formats.
PARQUET, ARROW = ('.parquet', '.pq'), ('.arrow', '.feather', '.ipc')
#: Types of Arrow that are numbers, without their widths.
NUMBERS = ('halffloat', 'float', 'double', 'int', 'uint')


class Rows(NamedTuple):
    """Vectors with their ids.

    Attributes:
        vectors: numpy [N, D]; a tuple of such arrays if there are several files.
        ids: [N]; None = the source has none.
    """

    vectors: Union[np.ndarray, tuple[np.ndarray, ...]]
    ids: Optional[list[Any]] = None


def read_rows(source: Any, *, vectors: Optional[str] = None, ids: Optional[str] = None) -> Rows:
    """Return the vectors and ids of a source.

    Args:
        source: the path of a .parquet, .arrow, .feather or .npy file (which is memory-mapped), a
            table of Arrow or LanceDB, a column of Arrow, an array, or a list of such.
        vectors: the column of vectors, lists of one length; default: the only one of its kind.
        ids: the column of ids; default ``'id'`` or ``'ids'`` if there is one.

    Raises:
        FileNotFoundError: no such file.
        ImportError: a file of Arrow without pyarrow.
        TypeError: none of these.
        ValueError: another suffix; no such column, or several that may be meant; empty values, or
            lists of different lengths (names the source and the row).

    Example:
        ::

            >>> read_rows(np.eye(2)).vectors.shape
            (2, 2)
    """
    return _read(source, vectors, ids, 'rows')


def is_source(x: Any) -> bool:
    """Return whether :func:`read_rows` is needed to read vectors.

    Example:
        ::

            >>> is_source('rows.parquet'), is_source(np.eye(2)), is_source([[1.0, 2.0]])
            (True, False, False)
    """
    if isinstance(x, list):
        return bool(x) and all(is_source(part) for part in x)
    kinds = (str, os.PathLike, Rows)
    return isinstance(x, kinds) or _is_table(x) or hasattr(x, 'to_pylist')


def _read(source: Any, vectors: Optional[str], ids: Optional[str], name: str) -> Rows:
    if isinstance(source, Rows):
        return source
    if isinstance(source, list) and source:
        return _joined([_read(x, vectors, ids, f'{name}[{i}]') for i, x in enumerate(source)])
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if not path.is_file():
            raise FileNotFoundError(f'there is no file {path}')
        if path.suffix == '.npy':
            if vectors or ids:
                raise ValueError(f'{path} is one array, and has no columns to name')
            return Rows(_mapped(path))
        return _of_table(_table(path, vectors, ids), vectors, ids, str(path))
    if _is_table(source):
        table = source if hasattr(source, 'column_names') else source.to_arrow()
        return _of_table(table, vectors, ids, name)
    if hasattr(source, 'to_pylist'):
        return Rows(_matrix(source, name))
    if hasattr(source, 'shape'):
        return Rows(source)
    raise TypeError(
        f'{name} must be a file, a table, an array or a list of them, not {_kind(source)}'
    )


def _kind(x: Any) -> str:
    return type(x).__name__


def _is_table(x: Any) -> bool:
    return hasattr(x, 'schema') and any(hasattr(x, name) for name in ('column_names', 'to_arrow'))


def _mapped(path: Path) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode='r', allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f'{path} is not an array of numbers: {error}') from error
    if array.dtype.kind == 'V':
        raise ValueError(
            f'{path} names no type that numpy knows: np.load it, and give '
            '.view(ml_dtypes.bfloat16) if it is that'
        )
    return array


def _table(path: Path, vectors: Optional[str], ids: Optional[str]) -> Any:
    """Return the columns of a file that may be needed."""
    suffixes = (*PARQUET, *ARROW)
    if path.suffix not in suffixes:
        raise ValueError(f'{path} must be a file of {", ".join((".npy", *suffixes))}')
    try:
        import pyarrow
        from pyarrow import ipc, parquet
    except ImportError as error:
        raise ImportError(f"{path} needs pyarrow: pip install -e '.[parquet]'") from error
    try:
        if path.suffix in PARQUET:
            schema = parquet.read_schema(path)
            return parquet.read_table(path, columns=_columns(schema, vectors, ids, str(path)))
        with pyarrow.memory_map(str(path)) as file:
            return ipc.open_file(file).read_all()
    except pyarrow.ArrowException as error:
        raise ValueError(f'{path} cannot be read: {error}') from error


def _columns(schema: Any, vectors: Optional[str], ids: Optional[str], name: str) -> list[str]:
    """Return the names of the columns of vectors and, if there is one, of ids."""
    kinds = {x.name: x.type for x in schema}
    for column in (vectors, ids):
        if column is not None and column not in kinds:
            raise ValueError(f'{name} has no column {column!r}; it has {", ".join(kinds)[:200]}')
    if vectors is None:
        lists = [x for x, kind in kinds.items() if _holds_lists(kind)]
        if len(lists) != 1:
            raise ValueError(
                f'{name} has {len(lists)} columns of lists of numbers '
                f'({", ".join(lists)[:200]}): name that of the vectors, '
                'mmvtr.arrays.read_rows(source, vectors=)'
            )
        vectors = lists[0]
    if ids is None:
        ids = next((x for x in ID if x in kinds and x != vectors), None)
    return [vectors] + ([] if ids is None else [ids])


def _holds_lists(kind: Any) -> bool:
    """Return whether a type of Arrow is of lists of numbers."""
    lists = str(kind).startswith(('fixed_size_list<', 'list<', 'large_list<'))
    return lists and str(kind.value_type).rstrip('0123456789') in NUMBERS


def _of_table(table: Any, vectors: Optional[str], ids: Optional[str], name: str) -> Rows:
    names = _columns(table.schema, vectors, ids, name)
    matrix = _matrix(table.column(names[0]), f'{name}, column {names[0]!r}')
    if len(names) == 1:
        return Rows(matrix)
    column = table.column(names[1])
    if column.null_count:
        raise ValueError(f'{name}, column {names[1]!r}: {column.null_count} ids are empty')
    return Rows(matrix, column.to_pylist())


def _matrix(column: Any, name: str) -> np.ndarray:
    """Return a column of lists of numbers as [N, D]."""
    chunks = column.chunks if hasattr(column, 'chunks') else [column]
    parts, width, start = [], None, 0
    for chunk in chunks:
        if not _holds_lists(chunk.type):
            raise ValueError(f'{name} must hold lists of numbers, not {chunk.type}')
        if not len(chunk):
            continue
        if chunk.null_count:
            row = start + chunk.is_null().to_pylist().index(True)
            raise ValueError(f'{name}: row {row} is empty')
        if hasattr(chunk, 'offsets'):
            lengths = np.diff(chunk.offsets.to_numpy())
        else:
            lengths = np.full(len(chunk), chunk.type.list_size)
        width = int(lengths[0]) if width is None else width
        if (lengths != width).any():
            row = int((lengths != width).argmax())
            raise ValueError(
                f'{name}: row {start + row} has {lengths[row]} numbers, row 0 has {width}'
            )
        values = chunk.flatten()
        if values.null_count:
            row = start + values.is_null().to_pylist().index(True) // max(1, width)
            raise ValueError(f'{name}: row {row} has an empty number')
        parts.append(values.to_numpy(zero_copy_only=False).reshape(len(chunk), width))
        start += len(chunk)
    if not parts:
        raise ValueError(f'{name} has no rows')
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _joined(sources: Sequence[Rows]) -> Rows:
    """Return the rows of several sources, one after another."""
    arrays: list[np.ndarray] = []
    for rows in sources:
        arrays += rows.vectors if isinstance(rows.vectors, tuple) else (rows.vectors,)
    there = [x.ids is not None for x in sources]
    if any(there) and not all(there):
        raise ValueError(
            f'rows[{there.index(False)}] has no ids, and rows[{there.index(True)}] has'
        )
    ids = [x for rows in sources for x in rows.ids] if all(there) else None
    return Rows(tuple(arrays), ids)
