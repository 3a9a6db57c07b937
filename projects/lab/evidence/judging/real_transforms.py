"""All transforms of the table over their settings, for real scores; and what 'auto' makes."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional

import torch
from torch import Tensor

import mmvtr
from judging.real_sets import Part
from judging.transforms import score_gap
from mmvtr.functional import invgc
from mmvtr.functional.transforms.transform_table import TRANSFORMS

#: Of the temperatures.
SHARES = (0.02, 0.045, 0.067, 0.11, 0.2, 0.3)
BY_TEMPERATURE = (
    'sinkhorn', 'inverted_softmax', 'dual_softmax', 'qb_norm', 'dbsn', 'db_norm'
)  # fmt: skip
SOURCES = ('bank', 'test')
#: Items of a gallery for which not every setting is tried.
LARGE = 2000


class Setting(NamedTuple):
    """A transform and its options; ``score_gap`` is a temperature as a share of the bank's."""

    transform: str
    options: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        values = ' / '.join(f'{value:g}' for _, value in self.options)
        return f'{self.transform} {values}'.strip()


RAW = Setting('raw')


def settings_for(part: Part) -> Iterator[Setting]:
    """All, or of a large gallery raw scores, those that are shown, and what 'auto' tries."""
    if part.scores.shape[1] <= LARGE:
        yield from settings()
        return
    yield RAW
    yield from SHOWN
    yield from (setting('sinkhorn', score_gap=share) for share in SHARES[2:] if share != 0.11)


def setting(name: str, **options: float) -> Setting:
    return Setting(name, tuple(options.items()))


def settings() -> Iterator[Setting]:
    """All that are tried, raw first."""
    yield RAW
    for name in BY_TEMPERATURE:
        for share in SHARES:
            yield setting(name, score_gap=share)
    for share in (0.067, 0.11, 0.2):
        for marginal_penalty in (0.8, 0.5):
            yield setting('unbalanced_sinkhorn', score_gap=share, marginal_penalty=marginal_penalty)
    for k in (3, 10, 20, 50):
        yield setting('csls', neighbours=k)
    for k, alpha in ((16, 0.75), (16, 0.5), (128, 0.75)):
        yield setting('nnn', neighbours=k, alpha=alpha)
    for strength in (0.25, 0.5, 0.75, 1.0):
        yield setting('local_scaling', strength=strength)
    for item, query in ((1.0, 1.0), (0.3, 0.3), (1.0, 0.3)):
        yield setting('invgc', item_strength=item, query_strength=query)


#: One a transform, fixed before looking; they have intervals on the page.
SHOWN = (
    *(setting(name, score_gap=0.11) for name in BY_TEMPERATURE),
    setting('unbalanced_sinkhorn', score_gap=0.067, marginal_penalty=0.8),
    setting('csls', neighbours=10),
    setting('nnn', neighbours=16, alpha=0.75),
    setting('local_scaling', strength=0.75),
    setting('invgc', item_strength=1.0, query_strength=0.3),
)


def transformed(one: Setting, part: Part, source: str) -> Optional[Tensor]:
    """Scores [Q, N] by a setting; None where the part lacks what it reads.

    ``'test'`` is transductive: the queries that ask, and the items that are asked, are the bank.
    """
    if one == RAW:
        return part.scores
    bank = part.bank if source == 'bank' else part.scores
    if bank is None:
        return None
    options = dict(one.options)
    if one.transform == 'invgc':
        return _moved(part, source, options)
    reads = TRANSFORMS[one.transform].reads
    if 'score_gap' in options:
        options['temperature'] = options.pop('score_gap') * score_gap(bank)
    if 'neighbours' in options:
        options['neighbours'] = min(int(options['neighbours']), *bank.shape)
    for name in {'bank_gallery', 'item_bank'} & {*reads}:
        if source == 'bank':
            options[name] = getattr(part, name)
        elif name == 'bank_gallery':
            options[name] = part.scores
        else:
            options[name] = None if part.test is None else part.test.items @ part.test.items.T
        if options[name] is None:
            return None
    return TRANSFORMS[one.transform].function(part.scores, bank, **options)


def _moved(part: Part, source: str, options: dict[str, float]) -> Optional[Tensor]:
    side = part.seen if source == 'bank' else part.test
    if side is None or side.items is None:
        return None
    moved = invgc(part.test.items, items=side.items, queries=side.queries, **options)
    return part.test.queries @ moved.T


class Auto(NamedTuple):
    """Scores [Q, N], and what was chosen."""

    scores: Tensor
    transform: Optional[str]
    options: dict[str, float]
    why: str


def by_retrieve(queries: Tensor, items: Tensor, bank, transform='auto', **options) -> Auto:
    """What :func:`mmvtr.retrieve` ranks by, as a matrix."""
    found = mmvtr.retrieve(queries, items, bank, transform, len(items), **options)
    scores = torch.empty(len(queries), len(items)).scatter_(1, found.ids, found.debiased)
    return Auto(scores, found.transform, found.options, found.why)


def auto(part: Part, *, pairs: bool) -> Optional[Auto]:
    """By the bank's pairs, or by its queries alone; None where the part has not these."""
    if part.test is None or part.seen is None or pairs and part.seen.items is None:
        return None
    bank = (part.seen.queries, part.seen.items) if pairs else part.seen.queries
    return by_retrieve(part.test.queries, part.test.items, bank)
