"""Small hooks: random numbers, broken videos, key encoders, and files and numbers of a test."""

from __future__ import annotations

import csv
import io
import os
import random
from typing import Any, Optional, Sequence

import numpy as np
import torch
from mmengine.dist import all_gather_object, get_rank
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvtr.cli.hints import option
from mmvtr.engine.loops.evaluation import Evaluation, bare, checked_modes
from mmvtr.errors import UserError
from mmvtr.evaluation.results import write_about
from mmvtr.functional.metrics.modality_gap import ModalityGap, modality_gap
from mmvtr.functional.values import check_range
from mmvtr.registry import HOOKS
from mmvtr.storage import write_text
from mmvtr.storage.arrays import write_array, write_arrays


@HOOKS.register_module()
class ExactSeedHook(Hook):
    """Hook that makes randomness a function of (seed, step, rank), and constant in evaluations.

    It seeds Python, numpy and torch before every training step and every evaluated batch.  Earlier
    events (a validation, another logging interval, a kill and a resume) then do not affect later
    steps, and testing a checkpoint reproduces the numbers from when it was saved.
    """

    priority = 'VERY_HIGH'

    def _before_epoch(self, runner: Runner, mode: str = 'train') -> None:
        seed_all(*self._key(runner, mode, 0), 0)

    def _before_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, mode: str = 'train'
    ) -> None:
        seed_all(*self._key(runner, mode, batch_idx), 1)

    def _key(self, runner: Runner, mode: str, batch_idx: int) -> tuple[int, ...]:
        if mode == 'train':
            return runner.seed, 0, runner.iter, get_rank()
        return 0, 1, batch_idx, get_rank()


def seed_all(*key: int) -> None:
    """Seed Python's, numpy's and torch's generators (CUDA included) from non-negative integers."""
    seeds = np.random.SeedSequence(key).generate_state(3).tolist()
    random.seed(seeds[0])
    np.random.seed(seeds[1])
    # torch.manual_seed does the same, but formats a stack trace if CUDA is not in use.
    torch.default_generator.manual_seed(seeds[2])
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seeds[2])


@HOOKS.register_module()
class ProgressHook(Hook):
    """Hook that passes the training's progress to the model, so that ramps fit any schedule.

    Sets ``progress``, in [0, 1), of every part of the model (supervision, losses) that has it.
    """

    def before_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Optional[dict] = None
    ) -> None:
        for module in runner.model.modules():
            if hasattr(module, 'progress'):
                module.progress = runner.iter / runner.max_iters


@HOOKS.register_module()
class BrokenVideoHook(Hook):
    """Hook that counts the videos that a training with ``on_broken='skip'`` has skipped.

    Every name is logged once with its reason, and each epoch's total over all ranks at its end.
    Reads ``data_batch['data_samples']``: ``broken`` (list of (video_id, reason)) and ``text_idx``.

    Videos that are known to be broken (``on_broken=dict(skip=FILE)``, the dataset's
    ``known_broken``) are counted separately, and not towards ``max_share``.

    Args:
        max_share: an epoch that skips more than this share of its other items ends the training
            (after its checkpoint is saved).

    Raises:
        RuntimeError: more than ``max_share`` of an epoch's items were skipped.
    """

    priority = 'LOWEST'

    def __init__(self, *, max_share: float = 0.1) -> None:
        check_range('[0, 1]', **{'BrokenVideoHook.max_share': max_share})
        self.max_share = max_share
        self._logged: set[str] = set()
        self._broken: list[tuple[str, str]] = []
        self._items = self._listed = 0

    def before_train_epoch(self, runner: Runner) -> None:
        self._broken, self._items, self._listed = [], 0, 0

    def before_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Optional[dict] = None
    ) -> None:
        samples = data_batch['data_samples']
        listed = getattr(runner.train_dataloader.dataset, 'known_broken', {})
        broken = [video for video in samples['broken'] if video[0] not in listed]
        self._log(runner, broken)
        self._broken += broken
        self._items += len(broken) + len(samples['text_idx'])
        self._listed += len(samples['broken']) - len(broken)

    def after_train_epoch(self, runner: Runner) -> None:
        ranks = all_gather_object((self._broken, self._items, self._listed))
        broken = [video for part, _, _ in ranks for video in part]
        self._log(runner, broken)
        items, listed = (sum(rank[i] for rank in ranks) for i in (1, 2))
        if not broken and not listed:
            return
        message = (
            f'epoch {runner.epoch + 1}: {len(broken)} of {items} items skipped, '
            f'{len(set(name for name, _ in broken))} broken videos'
        )
        apart = f', beside {listed} items of videos that on_broken lists' if listed else ''
        runner.logger.warning(message + apart)
        if len(broken) > self.max_share * items:
            prefix = getattr(runner.train_dataloader.dataset, 'key_prefix', '')
            listing = option('on_broken.skip', 'broken_videos.txt', prefix=prefix)
            more = option('max_share', 0.5, prefix='default_hooks.broken.')
            raise UserError(
                f'{message}; BrokenVideoHook.max_share is {self.max_share}: see what is broken '
                f'(check_dataset --decode) and list it ({listing}), or allow more ({more})'
            )

    def _log(self, runner: Runner, broken: Sequence[tuple[str, str]]) -> None:
        for name, reason in broken:
            if name not in self._logged:
                self._logged.add(name)
                runner.logger.warning(f'skipped broken video {name}: {reason}')


@HOOKS.register_module()
class ScoresFileHook(Hook):
    """Hook that writes ``scores_<mode>.npy`` to the work dir at each evaluation: float32 [T, V].

    Rows are texts and columns videos, in the order of the dataset (broken videos that it skips have
    no column). This is the SCORES.npy of ``tools/analysis_tools/eval_scores.py``. Each transformed
    score goes to ``scores_<mode>_<transform>.npz`` beside it, keys ``t2v`` (read by rows) and
    ``v2t`` (read by columns), float32 [T, V] both. A file of an earlier evaluation is replaced.
    Beside each is a json of the same name that states the set and the trainings of the scores,
    which ``compare.py`` reads.

    Args:
        modes: evaluations to write, some of 'val' and 'test'.

    Raises:
        ValueError: no mode, or another one.
        RuntimeError: (at evaluation) a similarity that scores only a shortlist.
    """

    priority = 'LOWEST'  # after the hooks that transform scores

    def __init__(self, *, modes: Sequence[str] = ('test',)) -> None:
        self.modes = checked_modes(modes, 'ScoresFileHook')

    def after_scoring(self, runner: Runner, evaluation: Evaluation) -> None:
        """Write the scores; called on rank 0."""
        if evaluation.mode not in self.modes:
            return
        if not evaluation.exact:
            raise UserError(
                'ScoresFileHook: the similarity ranks only a shortlist, other pairs have no scores'
            )
        stem = os.path.join(runner.work_dir, f'scores_{evaluation.mode}')
        raw = f'{stem}.npy'
        write_array(raw, evaluation.matrices['scores'].float().numpy())
        write_about(raw, evaluation.about)
        for name, scores in evaluation.transformed.items():
            t2v, v2t = (x.float().numpy() for x in scores)
            write_arrays(f'{stem}_{name}.npz', t2v=t2v, v2t=v2t)
            write_about(f'{stem}_{name}.npz', evaluation.about)
        runner.logger.info(f'scores: {stem}.npy and {len(evaluation.transformed)} transformed')


@HOOKS.register_module()
class SigmaFileHook(Hook):
    """Hook that writes ``sigma_<mode>.csv`` to the work dir at each evaluation: kind, id, sigma.

    Sigma is the geometric mean over the dimensions of an item's Gaussian (UATVR Fig. 3); the most
    uncertain items come first.  Ids are quoted and unchanged, even if they begin with ``=``: they
    must match those of other tables, so import the column as text into a spreadsheet.

    Raises:
        ValueError: (at evaluation) the model has no probabilistic heads.
    """

    def after_scoring(self, runner: Runner, evaluation: Evaluation) -> None:
        """Write the sigmas; called on rank 0."""
        if 'text_sigma' not in evaluation.matrices:
            raise ValueError('SigmaFileHook: the model has no probabilistic heads, so no sigma')
        rows = [
            (kind, item, float(sigma))
            for kind, items in (('text', evaluation.texts), ('video', evaluation.videos))
            for item, sigma in zip(items.ids, evaluation.matrices[f'{kind}_sigma'])
        ]
        path = os.path.join(runner.work_dir, f'sigma_{evaluation.mode}.csv')
        text = io.StringIO(newline='')
        writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(('kind', 'id', 'sigma'))
        writer.writerows(sorted(rows, key=lambda row: (row[0], -row[2])))
        write_text(path, text.getvalue(), errors='surrogateescape')
        runner.logger.info(f'sigma of each text and video: {path}')


@HOOKS.register_module()
class ModalityGapHook(Hook):
    """Hook that reports mean cosines within and between modalities (NCL App. D, Fig. 8).

    It adds ``modality_gap/within_text``, ``within_video``, ``cross`` and ``distance`` (of the modal
    means) to the results, if the set has at least two texts and two videos.  For similarities that
    are one inner product (CosineSimilarity).
    """

    def reported(self, keys: set[str], runner: Runner) -> set[str]:
        """Return the keys of its results."""
        return {f'modality_gap/{name}' for name in ModalityGap._fields}

    def after_scoring(self, runner: Runner, evaluation: Evaluation) -> None:
        """Report the modality gap; called on rank 0."""
        similarity = evaluation.model.similarity
        if not hasattr(similarity, 'flat'):
            raise TypeError(
                f'ModalityGapHook: {type(similarity).__name__} is not an inner product of two '
                'vectors'
            )
        if min(len(items.ids) for items in (evaluation.texts, evaluation.videos)) < 2:
            runner.logger.info('no modality gap: a set of one text or one video has no pairs')
            return
        flat = similarity.flat
        gap = modality_gap(flat(evaluation.texts.levels), flat(evaluation.videos.levels))
        for name, value in gap._asdict().items():
            evaluation.numbers[f'modality_gap/{name}'] = float(value)


@HOOKS.register_module()
class MomentumHook(Hook):
    """Hook that calls the model's ``follow()`` after each actual optimizer step.

    So steps that only accumulate gradients, or are skipped after an fp16 overflow, do not update
    key encoders.

    Raises:
        ValueError: (before training) a model that cannot follow.
    """

    def before_train(self, runner: Runner) -> None:
        model = bare(runner.model)
        if not hasattr(model, 'follow'):
            raise ValueError(
                f'MomentumHook: {type(model).__name__} has no key encoder that could follow; it '
                'goes with a MomentumRetriever (as the whole model, not as a member of one)'
            )

        def follow(*_: Any) -> None:
            model.follow()

        self._handle = runner.optim_wrapper.optimizer.register_step_post_hook(follow)

    def after_train(self, runner: Runner) -> None:
        self._handle.remove()
