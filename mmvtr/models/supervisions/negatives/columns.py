"""What a text is not to be near beside other texts' videos: columns of the same modality."""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from mmvtr.functional.losses.contrastive import Columns
from mmvtr.models.blocks import BlockSupervision
from mmvtr.models.pairs import Pairs
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels, take

#: Kinds of columns; see :class:`ColumnSupervision`.
KINDS = ('own', 'partner', 'reverse')


class Entries(NamedTuple):
    """Which items a kind of columns compares, in one direction.

    Attributes:
        rows: int64 [M], items of ``side``, one a row.
        side: 0 where rows are texts, 1 where they are videos.
        against: the same of the columns, all N items of it.
        among: bool [M, N], which of them are compared.
        anchor: int64 [M], text (t2v) or video (v2t) whose row it is.
    """

    rows: Tensor
    side: int
    against: int
    among: Tensor
    anchor: Tensor


@MODELS.register_module()
class ColumnSupervision(BlockSupervision):
    """Puts scores of the same modality into the denominators of a contrastive loss.

    =========  ========================================  ==========================================
    kind       of a text t, beside its scores s(t, .)    what is left out
    =========  ========================================  ==========================================
    own        s(t, t'), other texts                     texts that share a video with t
    partner    s(v_t, v'), videos of other texts         videos of t, videos of no text
    reverse    s(v_t, t'), all texts                     other texts of v_t
    =========  ========================================  ==========================================

    And the same of videos, the sides changed.  All in one softmax, GTE's improved contrastive loss
    (Li et al., 2023; sentence-transformers' ``partition_mode='joint'``): ``reverse`` has the pair
    itself once more in its denominator.  An anchor of several partners has the mean over these.
    Mined negatives need none of this: they are videos of the batch without a text.

    Scores are cosines, with their gradients; the loss divides them by its temperature.

    Args:
        kinds: one or more of the above.
        levels: the levels whose cosines are averaged.

    Raises:
        ValueError: no kind, an unknown one, or one twice.
    """

    fills = 'columns'  # models/target.py: check_read
    whole = 'further columns are of all texts and videos'

    def __init__(
        self, *, kinds: Sequence[str] = ('own', 'partner'), levels: Sequence[str] = ('global',)
    ) -> None:
        super().__init__()
        check_kinds(kinds)
        if not kinds:
            raise ValueError(f'kinds must be some of {[*KINDS]}')
        self.kinds = tuple(kinds)
        self.similarity = CosineSimilarity(levels=levels)

    def begin(self, texts: Levels, videos: Levels, pairs: Pairs) -> tuple[Levels, Levels]:
        """Unit vectors by level, of both sides."""
        return self.similarity.prepare(texts), self.similarity.prepare(videos)

    def block(
        self, begun: tuple[Levels, Levels], rows: slice, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """The target of all texts -> the same with columns."""
        columns = columns_of(target.positives, self.kinds, cosines_of(self.similarity, begun))
        return target._replace(columns=columns), {}


def check_kinds(kinds: Sequence[str]) -> None:
    """ValueError for an unknown kind of columns, or one twice."""
    wrong = [kind for kind in kinds if kind not in KINDS or [*kinds].count(kind) > 1]
    if wrong:
        raise ValueError(f'kinds must be some of {[*KINDS]}, each once, not {wrong[0]!r}')


def columns_of(
    positives: Tensor,
    kinds: Sequence[str],
    scores: Callable[[Entries], Tensor],
    judged: Optional[Callable[[str, Entries], Tensor]] = None,
) -> dict[str, list[Columns]]:
    """Further columns of both directions.

    Args:
        positives: bool [T, V].
        kinds: of columns.
        scores: gives float [M, N] of entries.
        judged: gives further weights of a direction's entries, float [M, N].
    """
    columns: dict[str, list[Columns]] = {}
    for way in ('t2v', 'v2t'):
        columns[way] = []
        for kind in kinds:
            entries = entries_of(kind, positives, way)
            found, anchor = scores(entries), entries.anchor
            weights = entries.among / anchor.bincount()[anchor, None].to(found.dtype)
            if judged is not None:
                weights = weights * judged(way, entries)
            columns[way].append(Columns(found, weights, anchor))
    return columns


def entries_of(kind: str, positives: Tensor, way: str) -> Entries:
    """Which items a kind of columns compares in a direction; positives bool [T, V]."""
    mine = 0 if way == 't2v' else 1
    match = positives if way == 't2v' else positives.t()  # [anchors, partners]
    anchor, partner = match.nonzero(as_tuple=True)
    if kind == 'own':
        anchor = torch.arange(len(match), device=match.device)
        among = (match.float() @ match.float().t()) == 0
        return Entries(anchor, mine, mine, among.fill_diagonal_(False), anchor)
    if kind == 'partner':
        return Entries(partner, 1 - mine, 1 - mine, ~match[anchor] & match.any(0), anchor)
    among = ~match.t()[partner]
    among[torch.arange(len(anchor), device=match.device), anchor] = True
    return Entries(partner, 1 - mine, mine, among, anchor)


def cosines_of(
    similarity: CosineSimilarity, sides: tuple[Levels, Levels]
) -> Callable[[Entries], Tensor]:
    """The scores of entries, by unit vectors of texts and of videos."""

    def scores(entries: Entries) -> Tensor:
        rows = take(sides[entries.side], entries.rows)
        return similarity.compare(rows, sides[entries.against])['scores']

    return scores
