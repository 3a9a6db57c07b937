"""Further negatives of a text beside other texts' videos: columns of the same modality."""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple, Optional, Sequence

import torch
from torch import Tensor, nn

from mmvtr.functional.losses.contrastive import WAYS, Columns
from mmvtr.models.blocks import BlockSupervision, Pairs
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.target import Filled, Target, slots_of
from mmvtr.registry import MODELS
from mmvtr.structures import Levels, take

#: Kinds of columns; see :class:`ColumnSupervision`.
KINDS = ('own', 'partner', 'reverse')


class Entries(NamedTuple):
    """Items that a kind of columns compares, in one direction.

    Attributes:
        rows: int64 [M], items of ``side``, one a row.
        side: 0 if rows are texts, 1 if they are videos.
        against: side of the columns, all its N items.
        among: bool [M, N], which of them are compared.
        anchor: int64 [M], text (t2v) or video (v2t) that the row belongs to.
    """

    rows: Tensor
    side: int
    against: int
    among: Tensor
    anchor: Tensor


@MODELS.register_module()
class ColumnSupervision(BlockSupervision):
    """Supervision that adds same-modality scores to the denominators of a contrastive loss.

    =========  ========================================  ==========================================
    kind       further scores of a text t                what is left out
    =========  ========================================  ==========================================
    own        s(t, t'), other texts                     texts that share a video with t
    partner    s(v_t, v'), videos of other texts         videos of t, videos of no text
    reverse    s(v_t, t'), all texts                     other texts of v_t
    =========  ========================================  ==========================================

    Likewise for videos, with the sides exchanged.  All are in one softmax, GTE's improved
    contrastive loss (Li et al., 2023; sentence-transformers' ``partition_mode='joint'``): with
    ``reverse`` the pair itself is in its denominator once more.  An anchor with several partners
    takes their mean.  Mined negatives need no columns: they are videos of the batch without a text.

    Scores are cosines, with their gradients; the loss divides them by its temperature.  So it must
    read cosines of these levels (:func:`check_columns`).

    In a ``CombinedSupervision`` with others that weight negatives, columns are down-weighted as
    pairs are (:func:`weighted_columns`).

    Args:
        kinds: one or more of the above.
        levels: the levels whose cosines are averaged.

    Raises:
        ValueError: no kind, an unknown one, or a duplicate.
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
        """Return the unit vectors of texts and of videos, by level."""
        return self.similarity.prepare(texts), self.similarity.prepare(videos)

    def block(self, begun: tuple[Levels, Levels], rows: slice, target: Target) -> Filled:
        """Return the target of all texts with columns."""
        columns = columns_of(target.positives, self.kinds, cosines_of(self.similarity, begun))
        return target._replace(columns=columns), {}


def check_kinds(kinds: Sequence[str]) -> None:
    """Raise ValueError for an unknown or duplicate kind of columns."""
    wrong = [kind for kind in kinds if kind not in KINDS or [*kinds].count(kind) > 1]
    if wrong:
        raise ValueError(f'kinds must be some of {[*KINDS]}, each once, not {wrong[0]!r}')


def columns_of(
    positives: Tensor,
    kinds: Sequence[str],
    scores: Callable[[Entries], Tensor],
    judged: Optional[Callable[[str, Entries], Tensor]] = None,
) -> dict[str, list[Columns]]:
    """Return further columns of both directions.

    Args:
        positives: bool [T, V].
        kinds: kinds of columns.
        scores: returns the scores of entries, float [M, N].
        judged: returns further weights of a direction's entries, float [M, N].
    """
    columns: dict[str, list[Columns]] = {}
    for way in WAYS:
        columns[way] = []
        for kind in kinds:
            entries = entries_of(kind, positives, way)
            values, anchor = scores(entries), entries.anchor
            weights = entries.among / _rows_of_anchor(anchor).to(values.dtype)
            if judged is not None:
                pair_weights = judged(way, entries)
                if kind == 'reverse':  # the pair itself is not down-weighted
                    pair_weights = pair_weights.scatter(1, anchor[:, None], 1.0)
                weights = weights * pair_weights
            columns[way].append(Columns(values, weights, anchor))
    return columns


def weighted_columns(
    columns: Mapping[str, Sequence[Columns]],
    kinds: Sequence[str],
    positives: Tensor,
    pair_weights: Mapping[str, Tensor],
    rule: Callable[[Tensor, Tensor], Tensor],
) -> dict[str, list[Columns]]:
    """Return columns with their weights combined with those of the pairs they correspond to.

    ========  =================  ===================================================================
    kind      score of a text t  the weight that is combined
    ========  =================  ===================================================================
    own       s(t, t')           mean of w(t, .) over the videos of t'; 1 if t' has none
    partner   s(v_t, v')         w(t, v')
    reverse   s(v_t, t')         w(t', v_t) of the other direction
    ========  =================  ===================================================================

    Args:
        columns, kinds: of both directions, as from :func:`columns_of`.
        positives: bool [T, V].
        pair_weights: by direction float [T, V], weights of pairs; 1 at positives.
        rule: combines the weight of a column with this weight.

    Raises:
        ValueError: the columns are not of these kinds.
    """
    new: dict[str, list[Columns]] = {}
    for way, other in zip(WAYS, reversed(WAYS)):
        if len(columns.get(way, ())) != len(kinds):
            raise ValueError(
                f'{way} has {len(columns.get(way, ()))} columns, expected the kinds {[*kinds]}'
            )
        turn = (lambda x: x) if way == 't2v' else torch.t
        match, w, others = turn(positives), turn(pair_weights[way]), turn(pair_weights[other]).t()
        new[way] = []
        for kind, old in zip(kinds, columns[way]):
            entries = entries_of(kind, positives, way)
            if kind == 'own':
                partners = match.to(w.dtype)
                number = partners.sum(1)
                weights = (w @ partners.t() / number.clamp_min(1)).masked_fill(number == 0, 1.0)
            elif kind == 'partner':
                weights = w[entries.anchor]
            else:
                weights = others[entries.rows]
            rows = _rows_of_anchor(entries.anchor).to(old.weights.dtype)
            weights = rule(old.weights * rows, weights.to(old.weights.dtype)) * entries.among / rows
            new[way].append(old._replace(weights=weights))
    return new


def check_columns(
    supervision: Optional[nn.Module], similarity: nn.Module, losses: Mapping[str, nn.Module]
) -> None:
    """Raise ValueError if a loss reads scores that are not cosines, as columns are.

    A similarity's ``cosines`` lists its matrices that are cosines, and their levels.  A loss whose
    own class does not set ``slots`` may read columns.  The parts of a combined supervision are
    checked one by one.

    Raises:
        ValueError: a loss reads columns beside a matrix that is not a cosine of their levels.
    """
    for part in getattr(supervision, 'parts', nn.ModuleDict()).values():
        check_columns(part, similarity, losses)
    if not getattr(supervision, 'kinds', ()) or not hasattr(supervision, 'similarity'):
        return
    levels, cosines = supervision.similarity.levels, getattr(similarity, 'cosines', {})
    for name, loss in losses.items():
        slots = slots_of(loss)
        if slots is not None and 'columns' not in slots:
            continue
        for matrix in getattr(loss, 'reads', ()):
            of = cosines.get(matrix)
            if of is None or not set(of) <= set(levels):
                read = f'{matrix!r} of {type(similarity).__name__}, which loss {name!r} reads,'
                what = 'is none' if of is None else f'is one of {[*of]}'
                raise ValueError(
                    f'{type(supervision).__name__}: its columns are cosines of {[*levels]}, but '
                    f'{read} {what}: take other levels=, or a CosineSimilarity (a similarity of '
                    'your own says in `cosines` of which levels its matrices are, a loss of your '
                    'own in `slots` what it reads)'
                )


def _rows_of_anchor(anchor: Tensor) -> Tensor:
    """Return the number of rows of each row's anchor, int64 [M] -> [M, 1]."""
    return anchor.bincount()[anchor, None]


def entries_of(kind: str, positives: Tensor, way: str) -> Entries:
    """Return the items that a kind of columns compares in a direction; positives bool [T, V]."""
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
    """Return a function from entries to scores, given unit vectors of texts and of videos."""

    def scores(entries: Entries) -> Tensor:
        rows = take(sides[entries.side], entries.rows)
        return similarity.compare(rows, sides[entries.against])['scores']

    return scores
