"""Texts of more tokens than a model reads: how many there are, and how much of each is not read."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

#: A text transform.  One that reads the first tokens only has ``limit``, how many, and
#: ``surplus(record)``, by how many a text is longer (0 or more).
Step = Callable[[dict], dict]


class CutTexts(NamedTuple):
    """Count and examples of texts that a pipeline truncates.

    Attributes:
        count: of them.
        total: texts in all.
        limit: tokens that are read, special ones included.
        longest: tokens of the longest text.
    """

    count: int
    total: int
    limit: int
    longest: int

    def __str__(self) -> str:
        verb = 'is' if self.count == 1 else 'are'
        return (
            f'{self.count:,} of {self.total:,} captions {verb} longer than {self.limit} tokens and '
            f'{verb} cut (the longest has {self.longest:,})'
        )


def cut_tokens(steps: Sequence[Step], record: Mapping[str, Any]) -> int:
    """Return how many tokens of a text the steps drop; 0: none.

    Args:
        steps: of a text pipeline, as they were built.
        record: of the text, with ``text`` and ``text_id``.
    """
    return max((step.surplus(record) for step in steps if hasattr(step, 'surplus')), default=0)


def count_cut(steps: Sequence[Step], records: Sequence[Mapping[str, Any]]) -> Optional[CutTexts]:
    """Return the texts that the steps truncate; None if there are none."""
    for step in steps:
        if hasattr(step, 'surplus'):
            beyond = [surplus for surplus in map(step.surplus, records) if surplus]
            if beyond:
                longest = step.limit + max(beyond)
                return CutTexts(len(beyond), len(records), step.limit, longest)
    return None
