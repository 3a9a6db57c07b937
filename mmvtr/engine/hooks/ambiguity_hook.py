"""Hook that refreshes ARL's thresholds before each epoch, and monitors its ambiguous sets."""

from __future__ import annotations

from typing import Optional

import numpy as np
import torch
import torch.distributed as dist
from mmengine.dist import get_dist_info
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.utils.data import DataLoader

from mmvtr.dist import gather_rows, world_size
from mmvtr.engine.loops.evaluation import bare
from mmvtr.models.annotation import match, own_match
from mmvtr.models.supervisions.arl import Statistics
from mmvtr.registry import HOOKS
from mmvtr.structures import Levels, cat_levels


@HOOKS.register_module()
class AmbiguityHook(Hook):
    """LAD (label-ambiguity detection) for a model whose supervision is an ARLSupervision.

    Before each epoch after the warm-up it encodes the training set once, in eval mode, each process
    its share, and passes the sums to the supervision (ARL Eq. 4 and the thresholds).  At the end of
    each epoch it logs the thresholds and the mean number of ambiguous videos per text; if the
    dataset knows the truth (planted data) also precision and recall of the sets, against the base
    rate of true pairs among the unannotated ones.  The truth is used for this log only.  If no
    epoch begins after the warm-up, it warns that there are never any sets.

    Args:
        min_lift: warn if precision is below this multiple of the base rate.
    """

    priority = 'BELOW_NORMAL'

    def __init__(self, *, min_lift: float = 2.0) -> None:
        self.min_lift = min_lift
        self._counts: Optional[Tensor] = None
        self._truth: Optional[Tensor] = None

    def before_train(self, runner: Runner) -> None:
        unit = getattr(runner.train_dataloader.dataset, 'epoch_unit', None)
        if unit in ('text', 'video'):
            raise ValueError(
                f'epoch_unit={unit!r}: the pass for Eq. 4 would meet a video once for each text, '
                "or one of its texts only; set epoch_unit='video_with_all_texts'"
            )
        truth = runner.train_dataloader.dataset.truth()
        self._truth = None if truth is None else torch.as_tensor(truth)
        supervision = bare(runner.model).supervision
        supervision.plan(runner.max_epochs)
        last = runner.max_iters - len(runner.train_dataloader)  # first iteration of the last epoch
        if last / runner.max_iters < supervision.warmup:
            runner.logger.warning(
                'no pair will ever be called ambiguous: sets start with an epoch, and none begins '
                f'after the warm-up ({supervision.warmup:.0%} of the training); train longer, or '
                'lower supervision.warmup (warmup_epochs)'
            )

    def before_train_epoch(self, runner: Runner) -> None:
        # Counts: found, correct, soft (true, unannotated), unannotated, texts.
        self._counts = torch.zeros(5, dtype=torch.float64)
        model = bare(runner.model)
        # Compared as in the supervision: a product may be an ulp above a whole epoch.
        if runner.iter / runner.max_iters < model.supervision.warmup:
            return
        model.eval()
        model.supervision.refresh(self._statistics(runner, model))
        if model.supervision.sample is not None:
            model.supervision.refresh_from_sample(*_sample(runner, model))
        model.train()
        for level, branch in model.supervision.branches.items():
            runner.logger.info(
                f'ambiguity, branch {level!r}: tau_s {float(branch.tau_s):.4f}, '
                f'tau_u {float(branch.tau_u):.4f}'
            )

    @torch.no_grad()
    def _statistics(self, runner: Runner, model: nn.Module) -> dict[str, Statistics]:
        """Return sums over the training set and all processes, by branch, in one pass."""
        supervision, device = model.supervision, torch.device(model.data_preprocessor.device)
        sums = {level: Statistics.empty(supervision.dim, device) for level in supervision.levels}
        for batch in _share(runner.train_dataloader):
            data = model.data_preprocessor(batch, False)
            if not {'video', 'text'} <= data['inputs'].keys():  # all videos are broken
                continue
            texts, videos = model(data['inputs'], mode='tensor')
            positives = own_match(batch['data_samples'], device)
            for level, statistics in sums.items():
                statistics.add(texts[level], videos[level], positives)
        if world_size() > 1:
            for total in (total for part in sums.values() for total in part.totals()):
                dist.all_reduce(total)
        return sums

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: Optional[dict] = None,
        outputs: Optional[dict] = None,
    ) -> None:
        model = bare(runner.model)
        sets: dict[str, Tensor] = model.judge.found
        if self._truth is None or not sets:
            return
        samples = data_batch['data_samples']
        device = model.supervision.ready.device
        text, video = (
            gather_rows(samples[f'{kind}_idx'].to(device)).cpu() for kind in ('text', 'video')
        )
        positives = match(samples, device).cpu()
        soft = self._truth[text][:, video] & ~positives
        for ambiguous in sets.values():
            ambiguous = ambiguous.cpu()
            counts = ambiguous.sum(), (ambiguous & soft).sum(), soft.sum(), (~positives).sum()
            self._counts += torch.tensor([*map(float, counts), float(len(text))])

    def after_train_epoch(self, runner: Runner) -> None:
        count, right, soft, unannotated, texts = self._counts.tolist()
        if not texts:
            return
        precision, base = right / max(count, 1.0), soft / max(unannotated, 1.0)
        runner.logger.info(
            f'ambiguity over the epoch: {count / texts:.2f} a text, precision {precision:.3f} '
            f'(base rate {base:.3f}), recall {right / max(soft, 1.0):.3f}'
        )
        if count and precision < self.min_lift * base:
            runner.logger.warning(
                f'{precision:.0%} of the pairs called ambiguous truly hold, {base:.0%} of all '
                "unannotated pairs do: the sets hardly tell them apart (rule='own', a cap and a "
                'longer warm-up make them smaller)'
            )


@torch.no_grad()
def _sample(runner: Runner, model: nn.Module) -> list[Levels]:
    """Return levels of random training texts and videos, the same on all processes."""
    loader = runner.train_dataloader
    sides = []
    for place, kind in enumerate(('text', 'video')):
        view = loader.dataset.view(kind)
        draw = np.random.default_rng((runner.seed, place)).permutation(len(view))
        rows = draw[: model.supervision.sample].tolist()
        batches = DataLoader(
            view, batch_size=_batch_size(loader), sampler=rows, collate_fn=loader.collate_fn
        )
        encode = getattr(model, f'encode_{kind}')
        inputs = (model.data_preprocessor(batch, False)['inputs'] for batch in batches)
        sides.append(cat_levels([encode(x) for x in inputs if kind in x]))
    return sides


def _batch_size(loader: DataLoader) -> int:
    """Return the batch size, also of a loader with a batch sampler."""
    return loader.batch_size or loader.batch_sampler.batch_size


def _share(loader: DataLoader) -> DataLoader:
    """Return this process' share of a loader's dataset, every item once in a fixed order."""
    rank, world = get_dist_info()
    return DataLoader(
        loader.dataset,
        batch_size=_batch_size(loader),
        sampler=range(rank, len(loader.dataset), world),
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
    )
