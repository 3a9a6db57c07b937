"""Monitor of DVTR's uncertainty eta, whose collapse is not visible in loss curves."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from mmengine.hooks import Hook

from mmvtr.registry import HOOKS

#: Figures that the supervisions report at each step.
FIGURES = ('eta_negative', 'eta_sure', 'match_positive', 'match_negative', 'eta_ramp')
#: Optional further figures.
MORE = ('down_weighted_per_text', 'stated_per_text', 'down_weighted_share', 'stated_share')
#: Prefix of the figures of a model's own supervision if an EarlyTeacher replaces it.
LIVE = 'live_'


@HOOKS.register_module()
class EtaMonitorHook(Hook):
    """Hook that logs epoch means of eta and of the match probability, and warns if eta collapses.

    ``eta_sure`` is the share of negatives with an eta over .9, DVTR's Fig. 4.

    Of several supervisions each one that reports (``dvtr_eta_negative``) is monitored, and of
    several members each separately.

    It warns only when eta is in use (the ramp of the supervision is at half or above).

    It also logs, before a training on a set whose truth is known (planted data), the share of its
    unannotated pairs that is true, for comparison with ``down_weighted_share``; and after each
    validation the match probability of val pairs beside that of training pairs.  If the first is
    much lower, the training pairs are memorised, including the false negatives, and their eta is
    uninformative; it warns once (``model.teacher`` is the remedy, docs/dvtr.md; with it there is no
    warning).

    Args:
        gap: minimum excess of the match probability of positives over that of negatives.
        low: mean eta of negatives below which the loss has effectively lost its negatives.
        high: mean eta of negatives above which no negative is down-weighted.
        discount: mean eta of negatives below which, if ``sure`` is missed too, eta down-weights all
            negatives alike.
        sure: minimum share of negatives with eta above .9. Most negatives are true: DVTR's Fig. 4
            has over 95 % there, trainings with 60 % general captions (8 % of the pairs are soft
            positives) 40 to 70 % while the ramp rises; a slope and a bias that cannot adapt give 0
            to 20 %.
        memorised: maximum excess of the match probability of training pairs over that of val pairs.
    """

    priority = 'BELOW_NORMAL'

    def __init__(
        self,
        *,
        gap: float = 0.05,
        low: float = 0.2,
        high: float = 0.98,
        discount: float = 0.8,
        sure: float = 0.3,
        memorised: float = 0.3,
    ) -> None:
        self.gap = gap
        self.low = low
        self.high = high
        self.discount = discount
        self.sure = sure
        self.memorised = memorised
        self.learnt: Optional[float] = None
        self._warned = False

    def before_train(self, runner) -> None:
        dataset = runner.train_dataloader.dataset
        truth = dataset.truth() if hasattr(dataset, 'truth') else None
        if truth is not None:
            unannotated = ~dataset.positives()
            share = (truth & unannotated).sum() / max(unannotated.sum(), 1)
            runner.logger.info(
                f'{100 * share:.3f} % of the unannotated training pairs are true (compare '
                'down_weighted_share, the mean of 1 - eta)'
            )

    def before_train_epoch(self, runner) -> None:
        self.sums: dict[str, dict[str, float]] = {}
        self.counts: dict[str, int] = {}

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        outputs = outputs or {}
        # A step of several members trains one of them, which it names.
        member = f'member{float(outputs["environment"]):.0f} ' if 'environment' in outputs else ''
        for prefix in _reporters(outputs):
            who = (member + prefix.rstrip('_')).strip()
            sums = self.sums.setdefault(who, dict.fromkeys(FIGURES, 0.0))
            self.counts[who] = self.counts.get(who, 0) + 1
            for name in (*FIGURES, *(name for name in MORE if prefix + name in outputs)):
                sums[name] = sums.get(name, 0.0) + float(outputs[prefix + name])

    def after_train_epoch(self, runner) -> None:
        for who, sums in self.sums.items():
            means = {name: total / self.counts[who] for name, total in sums.items()}
            of = f' of {who}' if who else ''
            runner.logger.info(
                f'eta{of} over the epoch: '
                + ', '.join(f'{name} {value:.3f}' for name, value in means.items())
            )
            live = who.endswith(LIVE.rstrip('_'))
            verdict = self.collapse(means) if means['eta_ramp'] >= 0.5 and not live else None
            if verdict:
                runner.logger.warning(f'eta{of} has collapsed: {verdict}')
            if live or len(self.sums) == 1:
                self.learnt, self._warned = means['match_positive'], self._warned or live

    def after_scoring(self, runner, evaluation) -> None:
        """Compare the match probability of val pairs with that of the previous training pairs."""
        eta = evaluation.matrices.get('eta')
        if evaluation.mode != 'val' or eta is None or self.learnt is None:
            return
        held_out = float(1 - eta[evaluation.relation.positives].double().mean())
        runner.logger.info(
            f'match probability of annotated pairs: training {self.learnt:.3f}, val {held_out:.3f}'
        )
        if self.learnt - held_out > self.memorised and not self._warned:
            self._warned = True
            runner.logger.warning(
                f'the match probability of annotated pairs is {self.learnt:.2f} in training and '
                f'{held_out:.2f} on val (gap > {self.memorised}): training pairs are memorised, '
                'their false negatives too, so that eta of these is high from now on. Let an '
                "earlier model compute the weights: teacher=dict(type='EarlyTeacher', at=0.15) "
                '(docs/dvtr.md)'
            )

    def collapse(self, means: dict[str, float]) -> Optional[str]:
        """Return a description of what is wrong with an epoch's means, or None."""
        eta, sure, positive, negative = (means[name] for name in FIGURES[:4])
        if eta < self.low:
            return (
                f'mean eta of negatives is {eta:.3f} (< {self.low}). Hardly any negative is pushed '
                'away any more, so embeddings may fall together and recall with them. Raise the '
                'floor of the weight, ramp it in later, or stop the gradient through eta.'
            )
        if positive - negative < self.gap:
            return (
                f'the match probability is {positive:.3f} for positives and {negative:.3f} for '
                f'negatives (gap < {self.gap}). It does not tell them apart, so the weight is much '
                'the same for every negative and the debiased loss is the plain one with fewer '
                'negatives. Train the match probability on negatives too (DVTRSupervision).'
            )
        if eta < self.discount and sure < self.sure:
            return (
                f'mean eta of negatives is {eta:.3f} (< {self.discount}), and it is over .9 for '
                f'{100 * sure:.0f} % of them only (< {100 * self.sure:.0f} %). Most negatives are '
                'true ones, so this lowers the weight of all of them and finds nothing. The slope '
                'and the bias of the match probability have far to go: raise their learning rate '
                '(lr_mult of supervision), or let the ramp begin later.'
            )
        if eta > self.high:
            return (
                f'mean eta of negatives is {eta:.3f} (> {self.high}). No negative gets less '
                'weight: the debiased loss is the plain one.'
            )
        return None


def _reporters(outputs: Mapping[str, Any]) -> list[str]:
    """Return the prefixes for which all figures are reported."""
    last = FIGURES[-1]
    prefixes = (name.removesuffix(last) for name in outputs if name.endswith(last))
    return [p for p in prefixes if all(p + name in outputs for name in FIGURES)]
