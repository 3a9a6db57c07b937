"""Targets from a frozen copy of the model, taken before it memorises its training pairs.

A supervision that learns from the labels which it corrects also learns the wrong labels once the
model memorises its training pairs: DVTR's eta of a false negative then goes to 1, and no negative
is down-weighted any more.  The copy's predictions are those of early training.
"""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any, Mapping, Optional

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mmvtr.dist import world_size
from mmvtr.errors import UserError
from mmvtr.functional.losses.contrastive import ByDirection
from mmvtr.functional.values import check_range
from mmvtr.models.blocks import Pairs
from mmvtr.models.similarities.cosine import token_levels
from mmvtr.models.target import Filled, Target, Targets, mean_weights
from mmvtr.registry import MODELS
from mmvtr.structures import Levels, drop_tokens, under

#: The parts that are copied.
PARTS = ('encoder', 'heads', 'supervision')
#: Prefix of the names of the copy's levels.
PREFIX = 'teacher.'
#: The largest power of calibrated weights.
LIMIT = 1e7
#: Limits of ``1 - weight`` of a pair before the power is taken, as no power changes 1.
SUREST, LEAST = 1 - 1e-6, 1e-12
#: Decay of the counts of earlier batches, and number of bins, for the choice of the power.
KEPT, BINS = 0.95, 512


@MODELS.register_module()
class EarlyTeacher(nn.Module):
    """Frozen copy of a retriever, whose supervision makes the target: ``model.teacher``.

    A copy of encoder, heads and supervision (the attribute ``copy``) encodes each training
    batch without gradient, and its supervision makes the target that the losses read.  The losses
    that train the supervision remain those of the model itself, which trains on without
    interruption; before the copy is taken, the model's own supervision makes the target.  The
    copy's weights apply in full at once, whatever the ramp.

    It works with every supervision that computes a target from levels: DVTR, its variants with PCME
    and with triplets, ARL (with the thresholds at the time of the copy, which is taken as soon as
    there are sets), relative scores.  No gradient flows through the target, so a supervision of
    columns is refused.

    Memory: encoder, heads and supervision once more (without gradients and optimizer state), and
    the copy's vectors of a joint batch; time: one more forward pass a step.

    Logs the acting supervision's figures; ``down_weighted_share``, the mean of 1 - weight over the
    unannotated pairs; ``down_weighted_per_text``, negatives of a text with a weight below 1/2 (0 if
    many weights are slightly below 1); with ``share`` also ``stated_share``, ``stated_per_text``
    and the power.  The figures of the model's own supervision are ``live_<name>``.

    Args:
        at: share of the training at which the copy is taken and begins to act, in [0, 1).
        momentum: None: the copy does not change after ``at``; m in [0, 1): it is the moving
            average ``m copy + (1 - m) model`` over all training batches so far, and keeps following
            (its buffers are those of the model).
        share: share of false negatives among the unannotated pairs, in (0, 1), or None.  With it
            ``1 - weight`` is raised to the power whose mean over the last batches (some 20) would
            have been this share, from the second batch on: if a teacher excludes 6 pairs a text but
            .75 are false negatives, it then excludes the surest .75.  Pairs with equal weights of 0
            (DVTR's, likelier than an own pair) share it if they are more than that.

    Attributes:
        progress: share of the training done; ProgressHook sets it, a custom loop must.
        copy: encoder, heads and supervision of the copy, saved with the model; None before it
            is taken.

    Raises:
        ValueError: an argument outside its range; a retriever without a supervision, or with one
            of columns; ``momentum`` for a supervision that looks up thresholds (ARL).
        RuntimeError: (in training) ``progress`` was never set.
    """

    def __init__(
        self, *, at: float = 0.15, momentum: Optional[float] = None, share: Optional[float] = None
    ) -> None:
        super().__init__()
        check_range('[0, 1)', at=at)
        if momentum is not None:
            check_range('[0, 1)', momentum=momentum)
        if share is not None:
            check_range('(0, 1)', share=share)
        self.at, self.momentum, self.share = at, momentum, share
        self.progress: Optional[float] = None
        self.register_module('copy', None)
        self.register_buffer('power', torch.ones(()))
        self.register_buffer('counts', torch.zeros(BINS))  # of 1 - weight in the last batches

    def of(self, model: nn.Module) -> None:
        """Set the retriever to copy, which holds this module as ``model.teacher``."""
        supervision = model.supervision
        if supervision is None:
            raise ValueError(
                'a teacher repeats what a supervision says, but the retriever has none'
            )
        if getattr(supervision, 'kinds', ()):
            raise ValueError(
                f'{type(supervision).__name__} fills columns, whose scores need gradients, but a '
                'teacher has none: leave the columns out, or the teacher'
            )
        if self.momentum is not None and hasattr(supervision, 'refresh'):
            raise ValueError(
                f'the thresholds of {type(supervision).__name__} are those of one model, not of an '
                'average: leave momentum away'
            )
        object.__setattr__(self, '_model', model)  # not a child: the model is the parent

    @property
    def supervision(self) -> nn.Module:
        """The supervision of the model itself."""
        return self._model.supervision

    @property
    def acts(self) -> bool:
        """Whether the copy currently makes the target."""
        late = self.copy is not None and (self.progress or 0.0) >= self.at
        return late and self._model.stage != 'uncertainty'

    @property
    def acting(self) -> nn.Module:
        """The supervision whose target the losses read."""
        return self._copied_supervision() if self.acts else self.supervision

    def train(self, mode: bool = True) -> EarlyTeacher:
        super().train(mode)
        if self.copy is not None:
            self.copy.eval()
        return self

    @property
    def found(self) -> dict[str, Tensor]:
        """The acting ARLSupervision's sets of the last batch, by branch."""
        return self.acting.found

    # -- the copy --------------------------------------------------------------------------------

    @torch.no_grad()
    def _keep_up(self) -> None:
        """Take the copy when it is due, or update the average."""
        if self.progress is None:
            raise UserError(
                'an EarlyTeacher must know how far the training is: add a ProgressHook, or set '
                'model.teacher.progress to the share that is done, in [0, 1), before each step'
            )
        if self.copy is not None:
            if self.momentum is not None:
                self._average()
        elif self.momentum is not None or self.progress >= self.at:
            if getattr(self.supervision, 'ready', True):
                self._take()
                self._agree()

    def _take(self) -> None:
        """Copy the parts that the supervision's target depends on."""
        self.copy = nn.Module()
        for name in PARTS:
            self.copy.add_module(name, deepcopy(getattr(self._model, name)))
        self.copy.requires_grad_(False).eval()

    def _agree(self) -> None:
        """Give all processes the same copy, since their buffers may have differed."""
        if world_size() > 1:
            for tensor in self.copy.state_dict().values():
                dist.broadcast(tensor, 0)

    def _average(self) -> None:
        for name, copy in self.copy.named_children():
            part = getattr(self._model, name)
            for old, new in zip(copy.parameters(), part.parameters()):
                old.lerp_(new.to(old.dtype), 1 - self.momentum)
            for old, new in zip(copy.buffers(), part.buffers()):
                old.copy_(new)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        """Load a copy if there was one when the weights were saved."""
        if not any(name.startswith(f'{prefix}copy.') for name in state_dict):
            self.copy = None
        elif self.copy is None:
            self._take()
        super()._load_from_state_dict(state_dict, prefix, *args)

    # -- the copy's inputs -------------------------------------------------------------------

    @torch.no_grad()
    def own_levels(self, inputs: dict[str, Tensor], data_samples: dict) -> tuple[Levels, Levels]:
        """Return the copy's levels of this process' texts and videos, ``'teacher.<name>'``.

        Empty before it acts.  Called once a training batch, in which the copy may be taken.
        """
        if self._model.training:
            self._keep_up()
        if not self.acts:
            return {}, {}
        sides, keep = [], token_levels(self._model.similarity)
        for side in ('text', 'video'):
            levels = self._model.encoded_by(self.copy, inputs, side)
            levels = drop_tokens(levels, keep=keep)
            sides.append({PREFIX + name: level for name, level in levels.items()})
        return sides[0], sides[1]

    def seen(self, levels: Levels) -> Levels:
        """Return the levels of a joint batch that the acting supervision reads."""
        live = {name: level for name, level in levels.items() if not name.startswith(PREFIX)}
        if not self.acts:
            return live
        return {**live, **under(PREFIX, levels)}

    def _copied_supervision(self) -> nn.Module:
        """Return the copy's supervision, at full ramp."""
        supervision = self.copy.supervision
        for module in supervision.modules():
            if hasattr(module, 'progress'):
                module.progress = 1.0
        return supervision

    # -- as a supervision ------------------------------------------------------------------------

    def forward(
        self, texts: Levels, videos: Levels, target: Target
    ) -> tuple[Targets, dict[str, Tensor]]:
        """Return the copy's target of the joint batch, and the losses of the model's own
        supervision."""
        live, logs = self.supervision(texts, videos, target)
        if not self.acts:
            return live, logs
        with torch.no_grad():
            new, figures = self._copied_supervision()(self.seen(texts), self.seen(videos), target)
        sums = {}
        if isinstance(new, Target):
            new, sums = self._weighted(new, target, self.power)
        return new, {**_together(logs, figures), **self._figures(sums)}

    def begin(self, texts: Levels, videos: Levels, pairs: Pairs) -> dict[str, Any]:
        """Prepare the blocks of both supervisions."""
        begun = dict(live=self.supervision.begin(texts, videos, pairs))
        if self.acts:
            with torch.no_grad():
                taught = self._copied_supervision().begin(
                    self.seen(texts), self.seen(videos), pairs
                )
            begun.update(taught=taught, power=self.power.clone())
        return begun

    def block(self, begun: dict[str, Any], rows: slice, target: Target) -> Filled:
        """Return the copy's target of the texts ``rows``, and sums of both."""
        live, sums = self.supervision.block(begun['live'], rows, target)
        if 'taught' not in begun:
            return live, sums
        with torch.no_grad():
            new, taught = self._copied_supervision().block(begun['taught'], rows, target)
            new, figures = self._weighted(new, target, begun['power'])
        sums = {f'live.{name}': value for name, value in sums.items()}
        sums.update({f'taught.{name}': value for name, value in taught.items()})
        return new, {**sums, **figures}

    def finish(self, begun: dict[str, Any], sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return losses and figures from the sums over all blocks, as :meth:`forward`."""
        if 'taught' not in begun:
            return self.supervision.finish(begun['live'], sums)
        logs = self.supervision.finish(begun['live'], under('live.', sums))
        with torch.no_grad():
            figures = self._copied_supervision().finish(begun['taught'], under('taught.', sums))
        return {**_together(logs, figures), **self._figures(sums)}

    def weigh(self, texts: Levels, videos: Levels, same: Tensor, **where: slice) -> Tensor:
        """Return only the weights, of pairs with a bank, from the levels of :meth:`seen`."""
        if not self.acts:
            return self.supervision.weigh(texts, videos, same, **where)
        weights = self._copied_supervision().weigh(texts, videos, same, **where)
        return self._calibrated(weights, self.power)

    # -- how much is excluded -------------------------------------------------------------------

    def _calibrated(self, weights: ByDirection, power: Tensor) -> ByDirection:
        if self.share is None:
            return weights
        if isinstance(weights, Mapping):
            return {way: self._calibrated(x, power) for way, x in weights.items()}
        return 1 - (1 - weights).clamp(0, SUREST).pow(power)

    def _weighted(self, target: Target, annotated: Target, power: Tensor) -> Filled:
        """Return the target with calibrated weights, and sums over its unannotated pairs."""
        if target.weights is None:
            return target, {}
        negatives = ~annotated.positives
        before = _counts(1 - mean_weights(target)[negatives])
        target = target._replace(weights=self._calibrated(target.weights, power))
        weights = mean_weights(target)
        sums = dict(
            down_weighted=(1 - weights).masked_fill(~negatives, 0.0).sum(),
            down_weighted_count=((weights < 0.5) & negatives).sum(),
            unannotated=negatives.sum(),
            texts=torch.tensor(len(weights), device=weights.device),
            before=before,
        )
        return target, {f'teacher.{name}': x.to(weights.dtype) for name, x in sums.items()}

    def _figures(self, sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return figures for the log, and update the power."""
        sums = under(PREFIX, sums)
        if not sums:
            return {}
        share = sums['down_weighted'] / sums['unannotated'].clamp_min(1)
        texts = sums['texts'].clamp_min(1)
        count = sums['down_weighted_count']
        figures = dict(down_weighted_share=share, down_weighted_per_text=count / texts)
        if self.share is None:
            return figures
        stated = share.new_tensor(self.share)
        figures.update(stated_share=stated, stated_per_text=stated * sums['unannotated'] / texts)
        figures['weight_power'] = self.power.clone()
        if self._model.training:
            self.counts.mul_(KEPT).add_(sums['before'])
            self.power.copy_(power_of(self.counts, self.share))
        return figures


def _counts(excluded: Tensor) -> Tensor:
    """Return the histogram of N shares in [0, 1] over :data:`BINS` bins (:func:`_places`)."""
    least, most = (math.log(-math.log(x)) for x in (SUREST, LEAST))
    place = (-excluded.clamp(LEAST, SUREST).log()).log()
    place = ((place - least) * (BINS / (most - least))).long().clamp(0, BINS - 1)
    return torch.bincount(place, minlength=BINS)


def _places(like: Tensor) -> Tensor:
    """Return -log(1 - weight) at the middle of each bin, float [BINS]; bins are log-spaced."""
    least, most = (math.log(-math.log(x)) for x in (SUREST, LEAST))
    middle = (torch.arange(BINS, device=like.device, dtype=like.dtype) + 0.5) / BINS
    return (least + middle * (most - least)).exp()


def power_of(counts: Tensor, share: float) -> Tensor:
    """Return the power of ``1 - weight`` whose mean over the pairs is ``share``.

    Args:
        counts: float [BINS], numbers of pairs by ``1 - weight``, not all 0.
        share: in (0, 1).

    Returns:
        0-dim, between 1 / :data:`LIMIT` and :data:`LIMIT`, and one of them if no power fits.
    """
    places, total = _places(counts), counts.sum()
    low, high = (counts.new_tensor(x) for x in (-math.log(LIMIT), math.log(LIMIT)))
    for _ in range(40):
        middle = (low + high) / 2
        more = (counts * (-middle.exp() * places).exp()).sum() > share * total
        low, high = torch.where(more, middle, low), torch.where(more, high, middle)
    return ((low + high) / 2).exp()


def _together(live: Mapping[str, Tensor], taught: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the losses of ``live`` and the figures of both; its own get the prefix ``live_``."""
    losses = {name: x for name, x in live.items() if 'loss' in name}
    figures = {f'live_{name}': x for name, x in live.items() if 'loss' not in name}
    return {**losses, **figures, **{n: x for n, x in taught.items() if 'loss' not in n}}
