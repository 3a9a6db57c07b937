"""A folder of Parquet files, each complete when it is there, that many processes fill."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Iterable, Iterator, Union

import pyarrow as pa
from pyarrow import parquet

from mmvtr.storage.atomic import leftovers, this_process, write_atomically


class Parts:
    """Rows that are written a file at a time; a kill loses what is not in a file yet.

    Processes share a folder: no two write to one file, and each reads what all have written.

    Args:
        folder: is made.
        rows: of a file.
        seconds: after which a file is written that has fewer.

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
        """Of all rows in files, those of broken videos too.

        Raises:
            RuntimeError: a file is damaged; names it.
        """
        return {name for table in self.tables(columns=['id']) for name in table['id'].to_pylist()}

    def tables(self, columns: Iterable[str] | None = None) -> Iterator[pa.Table]:
        """The files' tables, in the order of their names."""
        for path in sorted(self.folder.glob('*.parquet')):
            try:
                yield parquet.read_table(path, columns=None if columns is None else list(columns))
            except (pa.ArrowException, OSError) as error:
                raise RuntimeError(
                    f'{path} is damaged: remove it, its rows are made again ({str(error)[:200]})'
                ) from error

    def add(self, table: pa.Table) -> None:
        """Keep rows for the next file, and write it if it is time to."""
        self._waiting.append(table)
        late = time.monotonic() - self._since > self.seconds
        if late or sum(map(len, self._waiting)) >= self.rows:
            self.write()

    def write(self) -> None:
        """Write what waits."""
        rows = pa.concat_tables(self._waiting) if self._waiting else ()
        if len(rows):
            path = self._next()
            write_atomically(path, lambda file: parquet.write_table(rows, file))
        self._waiting, self._since = [], time.monotonic()

    def _next(self) -> Path:
        """A name that nobody else takes."""
        while True:
            path = self.folder / f'{this_process().tag}-{self._count:05d}.parquet'
            self._count += 1
            if not os.path.exists(path):  # of a process of the same number that is gone
                return path

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self.write()
