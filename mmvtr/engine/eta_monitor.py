"""Watches DVTR's uncertainty eta, whose collapse no loss curve shows."""

from __future__ import annotations

from typing import Optional

from mmengine.hooks import Hook

from mmvtr.registry import HOOKS

#: What the supervisions report at each step.
FIGURES = ('eta_positive', 'eta_negative', 'match_positive', 'match_negative')


@HOOKS.register_module()
class EtaMonitorHook(Hook):
    """Logs the epoch's mean eta of positives and of negatives, and warns when eta has collapsed.

    Args:
        gap: eta of negatives must exceed eta of positives by at least this much.
        low: mean eta of negatives below which the loss is said to have lost its negatives.
    """

    priority = 'BELOW_NORMAL'

    def __init__(self, *, gap: float = 0.05, low: float = 0.2) -> None:
        self.gap = gap
        self.low = low

    def before_train_epoch(self, runner) -> None:
        self.sums = dict.fromkeys(FIGURES, 0.0)
        self.count = 0

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if outputs and all(name in outputs for name in FIGURES):
            self.count += 1
            for name in FIGURES:
                self.sums[name] += float(outputs[name])

    def after_train_epoch(self, runner) -> None:
        if not self.count:
            return
        means = {name: total / self.count for name, total in self.sums.items()}
        runner.logger.info(
            'eta over the epoch: '
            + ', '.join(f'{name} {value:.3f}' for name, value in means.items())
        )
        verdict = collapse(means['eta_positive'], means['eta_negative'], gap=self.gap, low=self.low)
        if verdict:
            runner.logger.warning(f'eta has collapsed: {verdict}')


def collapse(positive: float, negative: float, *, gap: float, low: float) -> Optional[str]:
    """What is wrong with a mean eta of positives and of negatives, or None."""
    if negative < low:
        return (
            f'mean eta of negatives is {negative:.3f} (< {low}). Hardly any negative is pushed '
            'away any more, so embeddings may fall together and recall with them. Lower the share '
            'of the debiased weight (ramp, floor) or stop the gradient through eta.'
        )
    if negative - positive < gap:
        return (
            f'eta is {positive:.3f} for positives and {negative:.3f} for negatives (gap < {gap}). '
            'It no longer tells them apart: the weights are a constant and the debiased loss is '
            'the plain one. Train the match probability on negatives too (DVTRSupervision).'
        )
    return None
