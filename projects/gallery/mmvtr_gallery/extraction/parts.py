"""A folder of Parquet files, written atomically by many processes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Iterable, Iterator, Union

import pyarrow as pa
from pyarrow import parquet

from mmvtr.errors import UserError
from mmvtr.storage.atomic import leftovers, this_process, write_atomically


class Parts:
    """Rows that are buffered and written file by file; a kill loses only the buffered rows.

    Processes share a folder: no two write to the same file, and each reads the files of all.

    Args:
        folder: created if missing.
        rows: rows per file.
        seconds: after this time a file is written even with fewer rows.

    Example:
        ::

            >>> with Parts('vectors') as parts:
            ...     todo = [r for r in records if r['id'] not in parts.ids()]
            ...     for table in extractor.tables(todo):
            ...         parts.add(table)
    """

    def __init__(
        self, folder: Union[str, Path], *, rows: int = 4096, seconds: float = 60.0
    ) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in leftovers(self.folder):
            (self.folder / name).unlink(missing_ok=True)
        self.rows, self.seconds = rows, seconds
        self._waiting: list[pa.Table] = []
        self._since = time.monotonic()
        self._count = 0

    def ids(self) -> set[str]:
        """Return the ids of all rows in files, including broken videos.

        Raises:
            RuntimeError: a file is damaged (the error names it).
        """
        return {name for table in self.tables(columns=['id']) for name in table['id'].to_pylist()}

    def tables(self, columns: Iterable[str] | None = None) -> Iterator[pa.Table]:
        """Yield the files' tables, in the order of their names."""
        for path in sorted(self.folder.glob('*.parquet')):
            try:
                yield parquet.read_table(path, columns=None if columns is None else list(columns))
            except (pa.ArrowException, OSError) as error:
                raise UserError(
                    f'{path} is damaged: remove it, to make its rows again ({str(error)[:200]})'
                ) from error

    def add(self, table: pa.Table) -> None:
        """Buffer rows, and write a file once enough have come or enough time has passed."""
        self._waiting.append(table)
        late = time.monotonic() - self._since > self.seconds
        if late or sum(map(len, self._waiting)) >= self.rows:
            self.write()

    def write(self) -> None:
        """Write the buffered rows."""
        rows = pa.concat_tables(self._waiting) if self._waiting else ()
        if len(rows):
            path = self._next()
            write_atomically(path, lambda file: parquet.write_table(rows, file))
        self._waiting, self._since = [], time.monotonic()

    def _next(self) -> Path:
        """Return a file name that no other process takes."""
        while True:
            path = self.folder / f'{this_process().tag}-{self._count:05d}.parquet'
            self._count += 1
            if not os.path.exists(path):  # written by an earlier process with the same number
                return path

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self.write()
