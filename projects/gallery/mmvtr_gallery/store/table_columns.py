"""Metadata of videos from the extra columns of a user's dataset table."""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional, Sequence, Union

from mmengine.logging import MMLogger

Value = Optional[Union[str, int, float, bool]]


def columns_of(
    rows: Mapping[str, Sequence[Mapping[str, Any]]], table: str
) -> dict[str, dict[str, Value]]:
    """Return for each video, by id, the extra columns in which all of its rows agree.

    A column of integers, or of numbers, is converted to these; any other has strings, and None for
    empty cells.  A column in which the rows of a video differ describes texts: it is dropped, with
    a log message.

    Args:
        rows: by video id, the extra columns of each row of the video.
        table: name of the table in the log.
    """
    found: dict[str, dict[str, Any]] = {}
    differ, names = set(), set()
    for video, own in rows.items():
        first = found[video] = dict(own[0])
        for row in own:
            names |= row.keys()
            differ |= {x for x in first.keys() | row.keys() if first.get(x) != row.get(x)}
    if differ:
        MMLogger.get_current_instance().info(
            f'{table}: the columns {", ".join(sorted(differ))[:200]} differ between rows of a '
            'video, so they cannot be metadata of videos'
        )
    kept = sorted(names - differ)
    columns = {name: _typed([row.get(name) for row in found.values()]) for name in kept}
    return {
        video: {name: columns[name][place] for name in kept} for place, video in enumerate(found)
    }


def _typed(values: list[Any]) -> list[Value]:
    """Convert a column to a single type."""
    values = [None if x is None or isinstance(x, str) and not x.strip() else x for x in values]
    there = [x for x in values if x is not None]
    if there and all(type(x) is bool for x in there):
        return values
    for kind, fits in ((int, _WHOLE), (float, _NUMBER)):
        if all(type(x) is not bool and fits.fullmatch(str(x).strip()) for x in there):
            return [None if x is None else kind(x) for x in values]
    return [None if x is None else str(x) for x in values]


#: Numbers that survive a conversion: not 007, which is a name, nor integers beyond 64 bits.
_WHOLE = re.compile(r'0|-?[1-9]\d{0,17}', re.ASCII)
_NUMBER = re.compile(r'-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d{1,2})?', re.ASCII)
