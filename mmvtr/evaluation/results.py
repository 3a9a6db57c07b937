"""Results in a file: numbers by key, and the protocol of their measurement under ``protocol``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Union

from mmvtr.storage import file_digest, write_text

#: The only key that is not a number: ``line`` (the protocol line), ``tested`` (set, hash of its
#: ids, counts) and ``training`` (a dict of facts a training, see mmvtr.engine.loops.facts).
PROTOCOL = 'protocol'
#: Fields of ``tested`` that must agree for two results to share a table.
_TESTED = ('set', 'ids', 'texts', 'videos')


class Results(NamedTuple):
    """Numbers of a test and the protocol that they were measured with.

    Attributes:
        numbers: by key, such as ``retrieval/t2v_R1``.
        protocol: how they were measured; None = not known.
    """

    numbers: dict[str, float]
    protocol: Optional[dict[str, Any]] = None

    @property
    def line(self) -> Optional[str]:
        """The protocol line."""
        return (self.protocol or {}).get('line')

    @property
    def trainings(self) -> Optional[list[dict[str, Any]]]:
        """Facts of the trainings as dicts; None if they are not known."""
        return (self.protocol or {}).get('training')

    def as_dict(self) -> dict[str, Any]:
        """Return the results as they are written to a file."""
        return {**self.numbers, **({PROTOCOL: self.protocol} if self.protocol else {})}


def results_from(content: Mapping[str, Any], name: str) -> Results:
    """Return results read from a mapping that :meth:`Results.as_dict` made.

    Args:
        content: numbers by key, with their protocol if it is known.
        name: name of the content in errors.

    Raises:
        ValueError: a malformed protocol.
    """
    numbers = {key: value for key, value in content.items() if key != PROTOCOL}
    protocol = content.get(PROTOCOL)
    if protocol is not None and not _is_protocol(protocol):
        raise ValueError(
            f"{name}: 'protocol': expected a dict of 'line', 'tested' and 'training', found "
            f'{str(protocol)[:80]}'
        )
    return Results(numbers, protocol)


def _is_protocol(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get('line'), str)
        and isinstance(value.get('tested'), dict)
        and isinstance(value.get('training'), list)
    )


def write_results(results: Results, path: Union[str, Path]) -> None:
    """Write results as json."""
    write_text(path, json.dumps(results.as_dict(), indent=1) + '\n')


def write_about(path: Union[str, Path], about: Mapping[str, Any]) -> None:
    """Write a json file next to a score file, with its test set and trainings.

    Args:
        path: the existing score file.
        about: ``tested`` and ``training``, as in a protocol; if empty, nothing is written.
    """
    if about:
        content = dict(about, sha256=file_digest(path))
        write_text(Path(path).with_suffix('.json'), json.dumps(content, indent=1) + '\n')


def read_about(path: Path) -> Results:
    """Return the protocol in the json file next to a score file, without numbers.

    The results are empty if there is no such file, or if it belongs to other scores.

    Raises:
        ValueError: a malformed json file with the digest of these scores.
    """
    file = path.with_suffix('.json')
    if file == path or not file.is_file():
        return Results({})
    try:
        content = json.loads(file.read_text(encoding='utf-8'))
    except (OSError, ValueError, RecursionError):
        return Results({})
    if not isinstance(content, dict) or content.get('sha256') != file_digest(path):
        return Results({})
    return results_from({PROTOCOL: dict(content, line='')}, str(file))


def refuse_other_test(one: Results, other: Results, names: tuple[str, str]) -> None:
    """Raise ValueError unless two results have the same test set.

    Raises:
        ValueError: they differ: names the set, the hash of ids or the counts.
    """
    if one.protocol is not None and other.protocol is not None:
        refuse_other_tested(one.protocol['tested'], other.protocol['tested'], names)


def refuse_other_tested(
    mine: Mapping[str, Any], theirs: Mapping[str, Any], names: tuple[str, str]
) -> None:
    """Raise the ValueError of :func:`refuse_other_test` unless two dicts ``tested`` agree."""
    for key in _TESTED:
        if mine.get(key) != theirs.get(key):
            sets = [f'{name}: {_tested(x)}' for name, x in zip(names, (mine, theirs))]
            raise ValueError(
                f'results on different test sets are not compared ({key} differs): '
                f'{"; ".join(sets)}'
            )


def _tested(tested: Mapping[str, Any]) -> str:
    return (
        f'{tested.get("set")}, ids {tested.get("ids")}, {tested.get("texts")} texts, '
        f'{tested.get("videos")} videos'
    )
