"""A training that cannot learn says so once: its loss has had no gradient for several steps."""

from __future__ import annotations

import logging
from typing import Callable, Mapping, Optional, Sequence

import torch
from mmengine.logging import print_log
from torch import Tensor, nn

from mmvtr.models.target import Target, mean_weights
from mmvtr.structures import Levels

#: Steps without a gradient after which a training is warned of.
STEPS = 10


class GradientWatch:
    """Warn once when the embeddings of a batch get no gradient for :data:`STEPS` steps in a row.

    Gradients are counted on their device; the host asks for the count every :data:`STEPS` steps.

    Args:
        warn: what is called with the message; default: a warning of mmengine's current logger.
    """

    def __init__(self, warn: Optional[Callable[[str], None]] = None) -> None:
        self._warn = warn or _log
        self._zeros: Optional[Tensor] = None
        self._steps = 0
        self._said = False

    def __call__(self, sides: Sequence[Levels], why: Callable[[], str]) -> None:
        """Look at the gradients of a training batch when they come.

        Args:
            sides: levels of the texts, and of the videos, as the losses read them.
            why: the reason in words, asked for where there is something to warn of.
        """
        means = [level.mean for side in sides for level in side.values()]
        means = [mean for mean in means if mean.requires_grad and mean.numel()]
        if means and not self._said and torch.is_grad_enabled():
            torch.autograd.graph.register_multi_grad_hook(
                means, lambda gradients: self._count(gradients, why)
            )

    @torch.no_grad()
    def _count(self, gradients: Sequence[Optional[Tensor]], why: Callable[[], str]) -> None:
        found = [gradient.any() for gradient in gradients if gradient is not None]
        if not found or self._said:
            return
        zeros = 0 if self._zeros is None else self._zeros
        self._zeros = (zeros + 1) * ~torch.stack(found).any()
        self._steps += 1
        if self._steps % STEPS == 0 and int(self._zeros) >= STEPS:
            self._said = True
            self._warn(f'nothing is learned: no gradient for {int(self._zeros)} steps. {why()}')


def _log(text: str) -> None:
    print_log(text, 'current', logging.WARNING)


def why_nothing(
    annotated: Target,
    target: Optional[Target],
    supervision: Optional[nn.Module],
    figures: Mapping[str, Tensor],
) -> str:
    """Return the reason why a batch gives no gradient, in a sentence.

    Args:
        annotated: who belongs to whom.
        target: what the supervision made of it; None: not known.
        supervision: of the training, or None.
        figures: what it has logged of the batch.
    """
    if bool(annotated.positives.bool().all()):
        texts, videos = annotated.positives.shape
        return (
            f'All {texts} x {videos} pairs of the batch are annotated as matches, so that nothing '
            'is a negative: look at the ids (or the label column) that say what belongs together'
        )
    if supervision is None:
        return 'The loss is flat: look at its margin, its temperature and its inputs'
    name, shown = type(supervision).__name__, {k: round(float(x), 3) for k, x in figures.items()}
    if isinstance(target, Target) and spares_all(target):
        return f'{name} spares every negative of the batch; its figures: {shown}'
    return f'Look at what {name} spares; its figures: {shown}'


def spares_all(target: Target) -> bool:
    """Return whether no pair is pushed: each is a match, ambiguous, or a negative of weight 0."""
    left = ~target.positives.bool()
    if target.ambiguous is not None:
        left = left & ~target.ambiguous
    weights = mean_weights(target)
    return not bool((left if weights is None else left & (weights > 0)).any())
