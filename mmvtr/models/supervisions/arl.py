"""ARL's supervision: ambiguous pairs found by one branch and used by the other (Eq. 4-13)."""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple, Optional, Sequence

import torch
from torch import Tensor, nn

from mmvtr.functional.losses.contrastive import contrastive
from mmvtr.functional.losses.ranking import margin_ranking
from mmvtr.functional.losses.text_frame import text_frame
from mmvtr.functional.similarities.best_frames import (
    BestFrames,
    best_frames,
    paired_best_frames,
)
from mmvtr.functional.uncertainty.ambiguity import (
    STRATEGIES,
    Moments,
    ambiguous_set,
    apply_strategy,
    frame_uncertainty,
    own_positive,
    pair_uncertainty,
)
from mmvtr.functional.uncertainty.dataset_uncertainty import PairMoments, UnitMean, mean_cosines
from mmvtr.functional.values import check_one_of
from mmvtr.models.layers.pooling import unit
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels

#: Frames and texts of a video that the text-frame triplets can use as negatives.
FRAME_NEGATIVES = ('all', 'hardest', 'semi_hard')


class Statistics(NamedTuple):
    """Statistics of the training set for one branch: sums, which add over parts and processes.

    Attributes:
        texts: mean unit text (for U^v of Eq. 4).
        frames: mean unit frame (for U^q).
        pairs: moments of the annotated pairs, each a text and its matched frame (Eq. 3).
        scores: moments of the scores of the annotated pairs.
    """

    texts: UnitMean
    frames: UnitMean
    pairs: PairMoments
    scores: Moments

    @classmethod
    def empty(cls, dim: int, device: torch.device) -> 'Statistics':
        """Return statistics of no items."""
        means = (UnitMean(dim, device=device) for _ in range(2))
        return cls(*means, PairMoments(dim, device=device), Moments(device=device))

    def totals(self) -> list[Tensor]:
        """Return the tensors to sum over processes, in place."""
        return [part.totals for part in self]

    @torch.no_grad()
    def add(self, texts: Embedding, videos: Embedding, positives: Tensor) -> None:
        """Add T texts, V videos with tokens, and bool [T, V]."""
        self.texts.add(texts.mean)
        self.frames.add(videos.tokens, videos.mask)
        rows, columns = positives.nonzero(as_tuple=True)
        scores, index = paired_best_frames(texts.mean, videos.tokens, videos.mask, rows, columns)
        self.pairs.add(texts.mean[rows], videos.tokens[columns, index])
        self.scores.add(scores)


class Branch(nn.Module):
    """One branch's thresholds and training-set means, saved in the checkpoint.

    Args:
        dim: D.
        spread: spread of tau_s, see :class:`ARLSupervision`.
        u_spread: spread of tau_u.
        frame_u_spread: spread of the tau_u of frames, kept as ``frame_tau_u``; None: frames have no
            threshold of their own.
    """

    def __init__(
        self, dim: int, *, spread: float, u_spread: float, frame_u_spread: Optional[float]
    ) -> None:
        super().__init__()
        self.spread, self.u_spread, self.frame_u_spread = spread, u_spread, frame_u_spread
        self.register_buffer('text_mean', torch.zeros(dim))
        self.register_buffer('frame_mean', torch.zeros(dim))
        self.register_buffer('tau_s', torch.zeros(()))
        self.register_buffer('tau_u', torch.zeros(()))
        if frame_u_spread is not None:
            self.register_buffer('frame_tau_u', torch.zeros(()))

    @property
    def tau_u_of_frames(self) -> Tensor:
        """The threshold of u^f above which a frame is ambiguous, 0-dim."""
        return self.tau_u if self.frame_u_spread is None else self.frame_tau_u

    def refresh(self, statistics: Statistics) -> None:
        """Take the means, and compute tau_s and tau_u over the annotated pairs (Eq. 5) from them.

        u needs no second pass, since it is linear in the pairs' unit vectors.
        """
        self.text_mean.copy_(statistics.texts.mean)
        self.frame_mean.copy_(statistics.frames.mean)
        self.tau_s.fill_(statistics.scores.threshold(self.spread))
        mean, deviation = statistics.pairs.uncertainty(self.text_mean, self.frame_mean)
        self.set_tau_u(lambda spread: mean + spread * deviation)

    def set_tau_u(self, threshold: Callable[[float], float]) -> None:
        """Set tau_u of pairs and of frames by a function from a spread to a threshold of u."""
        self.tau_u.fill_(threshold(self.u_spread))
        if self.frame_u_spread is not None:
            self.frame_tau_u.fill_(threshold(self.frame_u_spread))

    def uncertainty(self, texts: Tensor, frames: Tensor, mask: Tensor, best: Tensor) -> Tensor:
        """Return u (Eq. 5) of unit texts [T, D] and frames [V, F, D] at frames ``best`` [T, V]."""
        of_texts = mean_cosines(texts, self.frame_mean)
        of_frames = mean_cosines(frames, self.text_mean, mask)
        return pair_uncertainty(of_texts, of_frames, best)


@MODELS.register_module()
class ARLSupervision(nn.Module):
    """Ambiguity-restrained learning (ARL), whose ambiguous sets are computed in every batch.

    An AmbiguityHook refreshes the means and thresholds before each epoch after the warm-up, in one
    pass over the training set that keeps D numbers a branch (Eq. 4 is linear).  Sets (Eq. 6-7) are
    then computed for the joint batch and never stored.  Losses read ``target[level]``: the losses
    of one branch get the sets of the other (cross-model detection), unless ``exchange=False``.

    The text-frame losses (Eq. 8-12 on the frames of a text's own video) are computed here.  They
    start with the sets: without sets every frame except the best would be a negative.

    Args:
        dim: D.
        levels: the branches; one level = self-training.
        exchange: each branch learns from the sets of the other (Tab. 5, C.L.).
        warmup: share of the training before the first sets, in [0, 1); default .3.
        warmup_epochs: alternative to ``warmup``: a number of epochs (the paper: "a few"); the
            AmbiguityHook provides the total number.
        rule: tau_s.  ``'own'`` (default): the text's own best score, so that ambiguous videos
            outrank the annotated one whatever the level of scores; ``'mean'``: mean score of
            annotated pairs plus ``spread`` standard deviations; 0 is the paper's, which reinforces
            itself if ambiguity is high (docs/arl.md).
        spread: see ``rule``.
        u_spread: tau_u is the mean of u plus this many standard deviations.  The paper's is 0;
            ambiguous pairs have a far larger u than the average pair, and 1.5 finds them more
            precisely.
        frame_u_spread: the same for the frames of a text's own video; None: their tau_u is that of
            the pairs.  Whether a frame shows its neighbour's moment has little to do with its u, so
            that a tau_u passed by few pairs leaves almost no frame ambiguous and makes the
            neighbours negatives (docs/arl.md).
        sample: None: tau_u is over the annotated pairs (linear and exact); a number n: over all
            pairs of n texts and n videos, drawn by the run's seed (another reading of the paper's
            mean of u "over the train set").
        lead: with ``rule='own'``, the margin by which a video must outrank the annotated one.
        cap: largest number of ambiguous videos of a text in a batch, those with the best scores;
            None = all (paper).
        strategy: of text-video pairs, ``'ours'``, ``'positive'`` or ``'ignore'`` (Tab. 6);
            ambiguous frames always are ``'ours'``.
        frame_weight: weight of the text-frame losses; 0 leaves them out (Tab. 5, T-F).
        frame_slack: with ``rule='own'``, a frame is ambiguous within this distance of the best.
        frame_negatives: frames (texts) of the own video that are negatives of the text-frame
            triplets, ``'all'``, ``'hardest'`` or ``'semi_hard'``
            (:func:`mmvtr.functional.losses.ranking`).
        lambda_nce: weight of the contrast beside the triplets in the text-frame losses.
        temperature, margin, ambiguous_margin: of the text-frame losses; the paper gives no
            temperature and no values of m and m_a, only m_a < m.

    Attributes:
        progress: share of the training done; ProgressHook sets it.
        found: sets of the last batch by branch, bool [T, V]; empty during the warm-up.

    Raises:
        ValueError: an unknown rule, strategy or frame_negatives, a warm-up that never ends or is
            given twice, or ``exchange`` without two levels.
    """

    #: The retriever passes the matches of a similarity that has them, so they are made once.
    reads_matches = True

    def __init__(
        self,
        *,
        dim: int,
        levels: Sequence[str] = ('a', 'b'),
        exchange: bool = True,
        warmup: Optional[float] = None,
        warmup_epochs: Optional[int] = None,
        rule: str = 'own',
        spread: float = 0.0,
        u_spread: float = 1.5,
        frame_u_spread: Optional[float] = None,
        sample: Optional[int] = None,
        lead: float = 0.0,
        cap: Optional[int] = 1,
        strategy: str = 'ours',
        frame_weight: float = 1.0,
        frame_slack: float = 0.05,
        frame_negatives: str = 'all',
        lambda_nce: float = 0.05,
        temperature: float = 0.07,
        margin: float = 0.2,
        ambiguous_margin: float = 0.1,
    ) -> None:
        super().__init__()
        check_one_of(('own', 'mean'), rule=rule)
        check_one_of(FRAME_NEGATIVES, frame_negatives=frame_negatives)
        if warmup is not None and warmup_epochs is not None:
            raise ValueError(
                f'give one of warmup and warmup_epochs, got {warmup} and {warmup_epochs}'
            )
        if warmup_epochs is not None and warmup_epochs < 0:
            raise ValueError(f'warmup_epochs must not be negative, got {warmup_epochs}')
        warmup = 0.3 if warmup is None else warmup
        if not 0 <= warmup < 1:
            raise ValueError(
                f'warmup is a share of the training, in [0, 1), not {warmup} (supervision=None '
                'trains without ambiguous sets)'
            )
        if exchange and len(levels) != 2:
            raise ValueError(f'exchange needs two levels, got {tuple(levels)}')
        check_one_of(STRATEGIES, strategy=strategy)
        spreads = dict(spread=spread, u_spread=u_spread, frame_u_spread=frame_u_spread)
        self.branches = nn.ModuleDict({level: Branch(dim, **spreads) for level in levels})
        self.register_buffer('ready', torch.zeros((), dtype=torch.bool))
        self.dim = dim
        self.exchange = exchange
        self.warmup, self.warmup_epochs = warmup, warmup_epochs
        self.rule, self.lead, self.sample = rule, lead, sample
        self.cap, self.strategy = cap, strategy
        self.frame_weight, self.frame_slack = frame_weight, frame_slack
        self.frame_negatives = frame_negatives
        self.lambda_nce, self.temperature = lambda_nce, temperature
        self.margin, self.ambiguous_margin = margin, ambiguous_margin
        self.progress = 0.0
        self.found: dict[str, Tensor] = {}

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the branches."""
        return tuple(self.branches)

    def plan(self, epochs: int) -> None:
        """Set ``warmup`` from ``warmup_epochs``, if given, and the training's ``epochs``."""
        if self.warmup_epochs is not None:
            self.warmup = self.warmup_epochs / epochs

    def refresh(self, statistics: dict[str, Statistics]) -> None:
        """Take the statistics of a pass over the training set, by branch."""
        for level, branch in self.branches.items():
            branch.refresh(statistics[level])
        self.ready.fill_(True)

    @torch.no_grad()
    def refresh_from_sample(self, texts: Levels, videos: Levels) -> None:
        """Set tau_u over all pairs of some texts and videos; after :meth:`refresh`."""
        for level, branch in self.branches.items():
            units, frames, mask = units_of(texts[level], videos[level])
            _, best = best_frames(units, frames, mask)
            moments = Moments()
            moments.add(branch.uncertainty(units, frames, mask, best))
            branch.set_tau_u(moments.threshold)

    def forward(
        self,
        texts: Levels,
        videos: Levels,
        target: Target,
        matches: Optional[Mapping[str, BestFrames]] = None,
    ) -> tuple[dict[str, Target], dict[str, Tensor]]:
        """Return a target a branch (and ``'scores'``, without sets), and the text-frame losses.

        Args:
            texts, videos: levels of the joint batch; those of videos with tokens.
            target: the annotated positives.
            matches: best frames of all pairs by branch, as far as they are known.
        """
        self.found = {}
        targets = {level: target for level in (*self.levels, 'scores')}
        pairs = target.positives.nonzero(as_tuple=True)
        if not self.ready or self.progress < self.warmup or not all(target.positives.shape):
            return targets, {}
        units = {level: units_of(texts[level], videos[level]) for level in self.levels}
        logs = {}
        if self.frame_weight:
            logs['loss_frame'] = self.frame_weight * self._frame_loss(units, *pairs)
        known = matches or {}
        self.found = {
            level: self.pair_sets(level, *units[level], target, known.get(level))
            for level in self.levels
        }
        for level in self.levels:
            chosen = self.found[self._teacher(level)]
            targets[level] = target._replace(
                **apply_strategy(self.strategy, target.positives, chosen, target.weights)
            )
        sets = torch.stack([*self.found.values()]).float()
        logs['ambiguous_per_text'] = sets.sum() / (len(sets) * sets.shape[1])
        return targets, logs

    def _teacher(self, level: str) -> str:
        """Return the branch whose sets ``level`` learns from (the other, with ``exchange``)."""
        return next(name for name in self.levels if name != level) if self.exchange else level

    @torch.no_grad()
    def pair_sets(
        self,
        level: str,
        texts: Tensor,
        frames: Tensor,
        mask: Tensor,
        target: Target,
        match: Optional[BestFrames] = None,
    ) -> Tensor:
        """Return the ambiguous pairs of a branch (Eq. 6-7), bool [T, V]; ``match``: its best frames
        if they are known."""
        branch = self.branches[level]
        scores, best = best_frames(texts, frames, mask) if match is None else match
        tau_s = branch.tau_s
        if self.rule == 'own':
            tau_s = own_positive(scores, target.positives, slack=-self.lead)
        return ambiguous_set(
            scores,
            branch.uncertainty(texts, frames, mask, best),
            target.positives,
            tau_s=tau_s,
            tau_u=branch.tau_u,
            cap=self.cap,
        )

    # -- text-frame ----------------------------------------------------------------------------

    def _frame_loss(
        self, units: dict[str, tuple[Tensor, Tensor, Tensor]], rows: Tensor, columns: Tensor
    ) -> Tensor:
        """Return the branches' mean of lambda_nce L_nce + L_a + L_n on the frames of own videos."""
        losses = []
        for level in self.levels:
            ambiguous = self.frame_sets(self._teacher(level), units, rows, columns)
            texts, frames, mask = units[level]
            scores = _own_frames(texts, frames, rows, columns)
            sides = text_frame(scores, mask[columns], columns, ambiguous=ambiguous)
            losses.append(
                self._two_losses(sides.frames, 't2v') + self._two_losses(sides.texts, 'v2t')
            )
        return torch.stack(losses).mean()

    def _two_losses(self, side: NamedTuple, direction: str) -> Tensor:
        arguments = dict(side._asdict(), direction=direction)
        contrast = contrastive(**arguments, temperature=self.temperature, form='own_pair')
        triplet = margin_ranking(
            **arguments,
            margin=self.margin,
            ambiguous_margin=self.ambiguous_margin,
            negatives=self.frame_negatives,
            average='anchors',
        )
        return self.lambda_nce * contrast + triplet

    @torch.no_grad()
    def frame_sets(
        self,
        level: str,
        units: dict[str, tuple[Tensor, Tensor, Tensor]],
        rows: Tensor,
        columns: Tensor,
    ) -> Tensor:
        """Return the ambiguous frames, Eq. 6 on s^f and u^f (Eq. 2, 5): bool [P, F].

        The branch's own best frame may be among them: the branch that learns from the set may have
        another.
        """
        branch = self.branches[level]
        texts, frames, mask = units[level]
        scores, mask = _own_frames(texts, frames, rows, columns), mask[columns]
        best = scores.masked_fill(~mask, -torch.inf).argmax(1, keepdim=True)
        positives = torch.zeros_like(mask).scatter_(1, best, True)
        of_frames = mean_cosines(frames, branch.text_mean)[columns]
        tau_s = branch.tau_s
        if self.rule == 'own':
            tau_s = own_positive(scores, positives, slack=self.frame_slack)
        return ambiguous_set(
            scores,
            frame_uncertainty(mean_cosines(texts, branch.frame_mean)[rows], of_frames),
            torch.zeros_like(positives),
            tau_s=tau_s,
            tau_u=branch.tau_u_of_frames,
            mask=mask,
        )


def units_of(texts: Embedding, videos: Embedding) -> tuple[Tensor, Tensor, Tensor]:
    """Return unit texts [T, D], unit frames [V, F, D] and their mask."""
    return unit(texts.mean), unit(videos.tokens), videos.mask


def _own_frames(texts: Tensor, frames: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return s^f (Eq. 2) of P pairs: float [P, F]."""
    with torch.autocast(texts.device.type, enabled=False):
        return torch.einsum('pd,pfd->pf', texts[rows], frames[columns])
