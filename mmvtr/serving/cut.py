"""What of a text a model does not read: towers take so many tokens, and the rest is cut."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, Optional, Sequence

#: What tokenizers call the number of their tokens.
LIMITS = ('context_length', 'max_length', 'max_words')
#: More tokens than a text of a request has: one a byte, four bytes a character.
ALL = 8192


class Cut(NamedTuple):
    """Tokens of a text, those included that mark its begin and its end.

    Attributes:
        read: that the model was given.
        of: that the whole text has.
    """

    read: int
    of: int


def cut_of(pipeline: Sequence[Any], text: str) -> Optional[Cut]:
    """What a text pipeline takes of a text; None: all of it, or no step says how many it takes."""
    for step in pipeline:
        limit = next((name for name in LIMITS if isinstance(getattr(step, name, None), int)), None)
        if limit is None:
            continue
        whole = copy.copy(step)
        setattr(whole, limit, ALL)
        if hasattr(whole, 'padded'):
            whole.padded = False
        found = len(whole.transform(dict(text_id='0', text=text))['token_ids'])
        most = getattr(step, limit)
        return Cut(most, found) if found > most else None
    return None
