"""Count of texts that are longer than a model's context, and by how much."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

#: A text transform.  One that truncates has ``limit``, the number of tokens that it keeps, and
#: ``surplus(record)``, the number of tokens that it drops from a text (0 or more).
Step = Callable[[dict], dict]


class CutTexts(NamedTuple):
    """Count and examples of texts that a pipeline truncates.

    Attributes:
        count: number of truncated texts.
        total: number of all texts.
        limit: tokens that are read, including special ones.
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
    """Return how many tokens of a text the steps drop, 0 or more.

    Args:
        steps: built steps of a text pipeline.
        record: record of the text, with ``text`` and ``text_id``.
    """
    return max((step.surplus(record) for step in steps if hasattr(step, 'surplus')), default=0)


def count_cut(steps: Sequence[Step], records: Sequence[Mapping[str, Any]]) -> Optional[CutTexts]:
    """Return the count of texts that the steps truncate; None if there are none."""
    for step in steps:
        if hasattr(step, 'surplus'):
            beyond = [surplus for surplus in map(step.surplus, records) if surplus]
            if beyond:
                longest = step.limit + max(beyond)
                return CutTexts(len(beyond), len(records), step.limit, longest)
    return None
