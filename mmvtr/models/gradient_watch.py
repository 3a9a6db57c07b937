"""Warning about a training whose loss has had no gradient for several steps."""

from __future__ import annotations

import logging
from typing import Callable, Mapping, Optional, Sequence

import torch
from mmengine.logging import print_log
from torch import Tensor, nn

from mmvtr.models.target import Target, mean_weights
from mmvtr.structures import Levels

#: Successive steps without a gradient before the warning.
STEPS = 10


class GradientWatch:
    """Watcher that warns once if embeddings get no gradient for :data:`STEPS` steps in a row.

    Gradients are counted on their device; the host reads the count every :data:`STEPS` steps.

    Args:
        warn: function called with the message; default: a warning of mmengine's current logger.
    """

    def __init__(self, warn: Optional[Callable[[str], None]] = None) -> None:
        self._warn = warn or _log
        self._zeros: Optional[Tensor] = None
        self._steps = 0
        self._reported = False

    def __call__(self, sides: Sequence[Levels], why: Callable[[], str]) -> None:
        """Check the gradients of a training batch once they are computed.

        Args:
            sides: levels of the texts, and of the videos, as the losses read them.
            why: function that returns the reason as text, called only for a warning.
        """
        means = [level.mean for side in sides for level in side.values()]
        means = [mean for mean in means if mean.requires_grad and mean.numel()]
        if means and not self._reported and torch.is_grad_enabled():
            torch.autograd.graph.register_multi_grad_hook(
                means, lambda gradients: self._count(gradients, why)
            )

    @torch.no_grad()
    def _count(self, gradients: Sequence[Optional[Tensor]], why: Callable[[], str]) -> None:
        nonzero = [gradient.any() for gradient in gradients if gradient is not None]
        if not nonzero or self._reported:
            return
        zeros = 0 if self._zeros is None else self._zeros
        self._zeros = (zeros + 1) * ~torch.stack(nonzero).any()
        self._steps += 1
        if self._steps % STEPS == 0 and int(self._zeros) >= STEPS:
            self._reported = True
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
        annotated: target from the annotation.
        target: the supervision's target; None: unknown.
        supervision: supervision of the training, or None.
        figures: figures that it has logged for the batch.
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
    if isinstance(target, Target) and excludes_all(target):
        return f'{name} gives every negative of the batch weight 0; its figures: {shown}'
    return f'Look at the weights that {name} gives; its figures: {shown}'


def excludes_all(target: Target) -> bool:
    """Return whether no pair is a negative: each is a match, ambiguous, or has weight 0."""
    left = ~target.positives.bool()
    if target.ambiguous is not None:
        left = left & ~target.ambiguous
    weights = mean_weights(target)
    return not bool((left if weights is None else left & (weights > 0)).any())
