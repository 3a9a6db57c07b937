"""One attempt to make the project lose or accept something wrong, and how it went."""

from __future__ import annotations

from typing import NamedTuple

#: A clear error in words that names the file; or nothing to refuse, and the right result.
GOOD = ('refused', 'right')

#: What must never happen.  lost: a result, a checkpoint or a difference to an uninterrupted run;
#: silent: nonsense was accepted; raw: a traceback or an exception that is no error in words;
#: nameless: an error without the name of the file; long: a message of more than 500 characters;
#: hang: no end in the time allowed.
BAD = ('lost', 'silent', 'raw', 'nameless', 'long', 'hang')


class Trial(NamedTuple):
    """How one attempt went.

    Attributes:
        row: its row of the table, e.g. the layout of an annotation or the family of a config.
        verdict: one of :data:`GOOD` or :data:`BAD`.
        detail: of a bad one: what repeats it, and what came.
    """

    row: str
    verdict: str
    detail: str = ''


def count(trials: list[Trial]) -> dict[str, dict[str, int]]:
    """By row, how many trials had each verdict.

    Raises:
        ValueError: a verdict that is not known.
    """
    table: dict[str, dict[str, int]] = {}
    for trial in trials:
        if trial.verdict not in GOOD + BAD:
            raise ValueError(f'verdict must be one of {GOOD + BAD}, not {trial.verdict!r}')
        row = table.setdefault(trial.row, dict.fromkeys(GOOD + BAD, 0))
        row[trial.verdict] += 1
    return table
