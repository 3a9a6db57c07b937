"""Judgments of people: which item of a gallery is right, or wrong, for a text."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import NamedTuple, Optional, Union

from mmvtr.errors import UserError
from mmvtr_gallery.store.manifest import refuse_link
from mmvtr_gallery.store.opening import is_url

#: Name of the file beside those of a store; what it holds is no part of the store's changes.
NAME = 'judgments.jsonl'


class Judgment(NamedTuple):
    """One line of the file.

    Attributes:
        text: the query.
        id: of the item.
        right: whether the item is right for the text; None: what was said before is withdrawn.
    """

    text: str
    id: str
    right: Optional[bool]


class Judgments:
    """The judgments of a gallery: a file of JSON lines to which each adds one; the last counts.

    Args:
        location: folder of the store; a URL: there is no place for them (``kept`` is False).

    Raises:
        RuntimeError: the file is a link, or a line is no judgment (names the line).
    """

    def __init__(self, location: Union[str, Path]) -> None:
        self._path = None if is_url(location) else Path(location, NAME)
        self._known: dict[str, dict[str, bool]] = {}
        self._end = self._lines = 0
        self._lock = threading.Lock()
        self.pairs()

    @property
    def kept(self) -> bool:
        """Return whether there is a place for them."""
        return self._path is not None

    def of(self, text: str) -> dict[str, bool]:
        """Return id -> whether it is right for a text, of those that are judged."""
        with self._lock:
            self._follow()
            return dict(self._known.get(text, {}))

    def pairs(self) -> list[Judgment]:
        """Return the judged pairs, those of a text in succession."""
        with self._lock:
            self._follow()
            return [
                Judgment(text, name, right)
                for text, of_text in self._known.items()
                for name, right in of_text.items()
            ]

    def _follow(self) -> None:
        """Read what was added to the file since, by this or another process."""
        if self._path is None or not os.path.lexists(self._path):
            return
        refuse_link(self._path)
        if self._path.stat().st_size > self._end:
            with open(self._path, 'rb') as file:
                file.seek(self._end)
                whole = file.read()
            whole = whole[: whole.rfind(b'\n') + 1]
            for line in whole.splitlines():
                self._read(line)
            self._end += len(whole)

    def _read(self, line: bytes) -> None:
        self._lines += 1
        try:
            said = Judgment(**json.loads(line))
        except (ValueError, TypeError):
            said = None
        if said is None or type(said.text) is not str or type(said.id) is not str:
            raise UserError(f'{self._path}, line {self._lines}: text, id and right expected')
        of_text = self._known.setdefault(said.text, {})
        of_text.pop(said.id, None)
        if said.right is not None:
            of_text[said.id] = bool(said.right)

    def add(self, judgment: Judgment) -> None:
        """Append a judgment; it is on disk when this returns.  One process at a time may do so.

        Raises:
            ValueError: there is no place for them.
            OSError: the file cannot be written.
        """
        if self._path is None:
            raise ValueError(
                'judgments are kept in the folder of a gallery, and this one is on a server'
            )
        line = json.dumps(judgment._asdict()).encode() + b'\n'
        with self._lock:
            self._follow()
            with open(self._path, 'ab') as file:
                file.truncate(self._end)  # half a line, of a process that was killed
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
