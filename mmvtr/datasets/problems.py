"""Collected problems of a file, so that one error reports all of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator, Optional, Sequence

#: Rows or files that a message names per kind, and characters of each description.
NAMED, SAID = 3, 160


class Problems:
    """Collected problems of a file; falsy while there are none.

    Args:
        name: name of the file, with which errors begin.

    Example:
        ::

            >>> problems = Problems('list.csv')
            >>> for place, row in rows:
            ...     with problems.of('time that is none'):
            ...         seconds(row['start'], place)
            >>> problems.refuse()
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._rows: dict[str, list[str]] = {}
        self._titles: list[tuple[str, Sequence[str]]] = []

    def __bool__(self) -> bool:
        return bool(self._rows or self._titles)

    @contextmanager
    def of(self, kind: str) -> Iterator[None]:
        """Record the ValueError of a row and continue with the next."""
        try:
            yield
        except ValueError as error:
            self._rows.setdefault(kind, []).append(str(error).removeprefix(f'{self.name}: '))

    def add(self, title: str, items: Sequence[str]) -> None:
        """Record several problems of one kind under a title with their count."""
        self._titles.append((title, items))

    def text(self, remedies: Sequence[str] = ()) -> str:
        """Return a sentence for one problem, else a line per kind with its first few rows."""
        kinds = [(f'{kind} ({len(problems)})', problems) for kind, problems in self._rows.items()]
        lone = [problems for _, problems in kinds if len(kinds) == len(problems) == 1]
        end = ''.join(f'; {remedy}' for remedy in remedies)
        if lone and not self._titles:
            return f'{self.name}: {lone[0][0]}{end}'
        lines = [f'{title}: {_begin(problems)}' for title, problems in [*kinds, *self._titles]]
        if len(lines) == 1:
            return f'{self.name}: {lines[0]}{end}'
        return '\n  '.join([f'{self.name} has {len(lines)} kinds of problems:', *lines, *remedies])

    def refuse(self) -> None:
        """Raise a ValueError of all problems, if there are any."""
        if self:
            raise ValueError(self.text())


@contextmanager
def collecting(name: str, problems: Optional[Problems]) -> Iterator[Problems]:
    """Yield the given problems for a nested reader, or new ones that are raised at the end."""
    collected = Problems(name) if problems is None else problems
    yield collected
    if problems is None:
        collected.refuse()


def _begin(problems: Sequence[str]) -> str:
    named = [text if len(text) <= SAID else f'{text[: SAID - 3]}...' for text in problems[:NAMED]]
    return '; '.join([*named, *(['...'] if len(problems) > NAMED else [])])
