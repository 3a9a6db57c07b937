"""Triplet losses of a whole score matrix, or of one that comes in strips."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from mmvtr.dist import gather_rows
from mmvtr.functional.ranking_strips import (
    Anchors,
    ColumnTerms,
    Own,
    anchors_of,
    best_negatives,
    column_terms,
    from_column_terms,
    join_own,
    own_scores,
)
from mmvtr.functional.ranking_terms import (
    Choice,
    Part,
    check_choice,
    of_parts,
    parts_of,
    row_terms,
)
from mmvtr.models.losses.matrix import MatrixLoss, target_of
from mmvtr.models.strips import Pairs, Sweep
from mmvtr.models.target import Target
from mmvtr.registry import MODELS


class Begun(NamedTuple):
    """What the strips of a matrix have to know of it.

    Attributes:
        anchors: of the videos, over all texts; no gradient.  None: the loss does not look that way.
        negatives: int64 [A], the text that is pushed, -1 = none; one tensor for each part of the
            loss, or none at all where all texts are pushed.
        shape: (T, V) of the joint batch.
    """

    anchors: Optional[Anchors]
    negatives: tuple[Tensor, ...]
    shape: tuple[int, int]


class Sums(NamedTuple):
    """What strips leave behind.

    Attributes:
        rows: for each part of the loss the sum of its terms over the texts, and by what it is
            divided; 0-dim.
        own: of the videos' positives, with gradient.
        columns: for each part the terms of the videos.
    """

    rows: tuple[tuple[Tensor, Tensor], ...]
    own: Optional[Own]
    columns: tuple[ColumnTerms, ...]


class TripletLoss(MatrixLoss):
    """What triplet losses share: terms of texts and of videos, of the whole matrix or of strips.

    A subclass says what its terms are (:meth:`choice`, :meth:`parts`).
    """

    direction = 'both'
    #: Whether positives are known only after the supervision.
    positives_supervised = False
    #: s_p of an anchor without positives; None: it is none.
    lone: Optional[float] = None

    def choice(self) -> Choice:
        """Which terms there are, now."""
        raise NotImplementedError(f'{type(self).__name__} must define choice()')

    def parts(self, scores: Tensor, target: Target) -> list[Part]:
        """What the loss is the sum over; of all texts or of some."""
        raise NotImplementedError(f'{type(self).__name__} must define parts()')

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        choice = self.choice()
        return of_parts(
            self.parts(scores, target),
            self.direction,
            lambda part: self.row_terms(part, choice, target),
        )

    def row_terms(self, part: Part, choice: Choice, target: Target) -> tuple[Tensor, Tensor]:
        """Sum of the terms of the texts, and by what it is divided."""
        return row_terms(part, choice)

    def column_terms(
        self, begun: Begun, sums: ColumnTerms, scores: Tensor, rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Likewise of the videos; ``rows`` is what the texts' terms are divided by."""
        return from_column_terms(sums, scores, self.choice().average)

    # -- in strips: some texts against all videos at a time (models/strips.py) ------------------

    @torch.no_grad()
    def begin(self, sweep: Sweep, pairs: Pairs, temperature: Tensor) -> dict[str, Begun]:
        """Who the videos' anchors are, and which text each of them pushes."""
        names = self.known(sweep.matrices(slice(0, 0)))
        return {name: self._begin(sweep, name, pairs.shape) for name in names}

    def _begin(self, sweep: Sweep, name: str, shape: tuple[int, int]) -> Begun:
        choice = self.choice()
        if self.direction == 't2v':
            return Begun(None, (), shape)

        def parts(rows: slice, target: Any) -> list[Part]:
            return self.parts(sweep.matrices(rows)[name], target_of(target, name))

        own = []
        for rows in sweep.strips:
            known = (sweep.supervised if self.positives_supervised else sweep.annotated)(rows)
            part = parts(rows, known)[0]
            own.append(own_scores(part.leads, part.positives, choice.positive))
        whole = join_own(own, choice.positive)
        if choice.positive == 'own':
            whole = Own(*map(gather_rows, whole))
        else:
            shares = zip(*(gather_rows(x[None]) for x in whole))
            whole = join_own([Own(*share) for share in shares], choice.positive)
        anchors = anchors_of(whole, choice.positive, lone=self.lone)
        if choice.negatives == 'all':
            return Begun(anchors, (), shape)
        found = []
        for rows in sweep.strips:
            bests = self.best(parts(rows, sweep.supervised(rows)), anchors, choice)
            found.append([(value, index + (rows.start or 0)) for value, index in bests])
        return Begun(anchors, tuple(_best(some) for some in zip(*found)), shape)

    def best(
        self, parts: Sequence[Part], anchors: Anchors, choice: Choice
    ) -> list[tuple[Tensor, Tensor]]:
        """Of a strip: value and text, float and int64 [A], of the best negatives for each part."""
        return [best_negatives(part, anchors, choice) for part in parts]

    def strip(
        self,
        begun: dict[str, Begun],
        rows: slice,
        matrices: dict[str, Tensor],
        target: Target | dict[str, Target],
        temperature: Tensor | float,
    ) -> dict[str, Sums]:
        """By the name of the matrix: what the texts ``rows`` add."""
        return {
            name: self._sums(begun[name], rows, matrices[name], target_of(target, name))
            for name in self.known(matrices)
        }

    def _sums(self, begun: Begun, rows: slice, scores: Tensor, target: Target) -> Sums:
        choice, parts = self.choice(), self.parts(scores, target)
        of_rows = ()
        if self.direction != 'v2t':
            of_rows = self.rows_of(parts, choice, target)
        if begun.anchors is None:
            return Sums(of_rows, None, ())
        own = own_scores(parts[0].leads, parts[0].positives, choice.positive)
        chosen = [one - (rows.start or 0) for one in begun.negatives] or [None] * len(parts)
        columns = tuple(
            column_terms(part, begun.anchors, choice, one) for part, one in zip(parts, chosen)
        )
        return Sums(of_rows, own, columns)

    def rows_of(
        self, parts: Sequence[Part], choice: Choice, target: Target
    ) -> tuple[tuple[Tensor, Tensor], ...]:
        """:meth:`row_terms` of each part, of all texts or of some."""
        return tuple(self.row_terms(part, choice, target) for part in parts)

    def join(self, parts: Sequence[Sums]) -> Sums:
        """What strips have left, or processes, in the order of their texts, as one."""
        rows = tuple(
            tuple(sum(some) for some in zip(*of_part)) for of_part in zip(*(p.rows for p in parts))
        )
        if parts[0].own is None:
            return Sums(rows, None, ())
        columns = tuple(
            ColumnTerms(*(sum(some) for some in zip(*of_part)))
            for of_part in zip(*(p.columns for p in parts))
        )
        return Sums(rows, join_own([p.own for p in parts], self.choice().positive), columns)

    def finish(self, begun: dict[str, Begun], sums: dict[str, Sums]) -> Tensor:
        """What all strips of all processes have left, by matrix -> 0-dim loss."""
        values = [self._value(begun[name], one) for name, one in sums.items()]
        return self.loss_weight * torch.stack(values).mean()

    def _value(self, begun: Begun, sums: Sums) -> Tensor:
        ways = [sums.rows] if sums.rows else []
        if sums.own is not None:
            scores = anchors_of(sums.own, self.choice().positive, lone=self.lone).scores
            divisors = [count for _, count in sums.rows] or [None] * len(sums.columns)
            ways.append(
                [
                    self.column_terms(begun, one, scores, count)
                    for one, count in zip(sums.columns, divisors)
                ]
            )
        means = [sum(total / count.clamp_min(1) for total, count in way) for way in ways]
        return sum(means) / len(means)


def _best(found: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Of strips: scores [A] and texts [A] each -> the texts with the best of all, -1 = none."""
    value, index = (gather_rows(torch.stack(some)) for some in zip(*found))
    value, place = value.max(0)
    return index.gather(0, place[None])[0].masked_fill(value == -torch.inf, -1)


@MODELS.register_module()
class RankingLoss(TripletLoss):
    """Triplet loss (DVTR Eq. 1); with weights from a supervision the debiased one (DVTR Eq. 12).

    Where the target has ambiguous entries it is ARL's dual triplet (Eq. 11 + 12).  The paper adds
    the two directions, of which this is the mean (``loss_weight=2``), divides by all pairs
    (``average='anchors'``; no ambiguous pair: the term is 0), and leaves open how q_a, V_a, q_n and
    V_n are drawn.  Its lineage (MS-SL to GMMFormer) has two losses, one a direction: ``'random'``
    negatives, late in training from a ``pool`` of 20 videos and of 1 caption, and against the mean
    of a video's captions (``positive='mean'``).

    Args:
        margin: used where the supervision gives none (lineage: .1 on TVR, else .2).
        ambiguous_margin: m_a of Eq. 11, between 0 and ``margin``; None = half of ``margin`` (the
            paper only says m_a < m).
        pool: ``'random'`` draws among this many best-scored negatives.
        pool_from: share of the training after which ``pool`` holds; before, all are drawn from
            (of 100 epochs GMMFormer: 30 on TVR, 20 on ActivityNet, never on Charades-STA; MS-SL:
            20 on all).
        weight_on, negatives, positive, average, direction: see
            :func:`mmvtr.functional.ranking.ranking`.

    Attributes:
        progress: share of the training done; ProgressHook sets it, 1 without the hook.

    Raises:
        ValueError: an unknown choice, a pool of nothing or without ``'random'``, an
            ``ambiguous_margin`` outside [0, margin].
    """

    slots = ('margins', 'weights', 'ambiguous')

    def __init__(
        self,
        *,
        margin: float = 0.2,
        ambiguous_margin: Optional[float] = None,
        weight_on: str = 'hinge',
        negatives: str = 'all',
        pool: Optional[int] = None,
        pool_from: float = 0.0,
        positive: str = 'own',
        average: str = 'terms',
        direction: str = 'both',
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        if ambiguous_margin is not None and not 0 <= ambiguous_margin <= margin:
            raise ValueError(
                f'ambiguous_margin must lie between 0 and margin = {margin}, not {ambiguous_margin}'
            )
        self.margin = margin
        self.ambiguous_margin = margin / 2 if ambiguous_margin is None else ambiguous_margin
        self.pool_from = pool_from
        self.direction = direction
        self.weight_on = weight_on
        self.negatives = negatives
        self.pool = pool
        self.positive = positive
        self.average = average
        self.progress = 1.0
        # Random negatives are drawn from the step number: the same on all processes and after
        # a resume.
        self.register_buffer('step', torch.zeros((), dtype=torch.long))
        check_choice(Choice(weight_on, negatives, pool, positive, average), direction)

    def choice(self) -> Choice:
        choice = Choice(self.weight_on, self.negatives, self.pool, self.positive, self.average)
        if self.negatives != 'random':
            return choice
        return choice._replace(
            pool=self.pool if self.progress >= self.pool_from else None,
            generator=torch.Generator().manual_seed(int(self.step)),
        )

    def parts(self, scores: Tensor, target: Target) -> list[Part]:
        return parts_of(
            scores,
            target.positives,
            margin=self.margin if target.margins is None else target.margins,
            weights=target.weights,
            ambiguous=target.ambiguous,
            ambiguous_margin=self.ambiguous_margin,
        )

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        value = super().compute(scores, target, temperature)
        self.step += self.training
        return value

    # -- in strips ------------------------------------------------------------------------------

    @property
    def whole(self) -> str:
        """Why it wants the whole matrix; '' where strips will do."""
        random = self.negatives == 'random'
        return "negatives='random' draws for all pairs at once" if random else ''

    def begin(self, sweep: Sweep, pairs: Pairs, temperature: Tensor) -> dict[str, Begun]:
        self.step += self.training * len(self.reads)
        return super().begin(sweep, pairs, temperature)
