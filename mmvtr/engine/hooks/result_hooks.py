"""Hooks that write or add results of an evaluation: scores, sigmas, the modality gap."""

from __future__ import annotations

import csv
import io
import os
from typing import Sequence

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvtr.engine.loops.evaluation import Evaluation, checked_modes
from mmvtr.errors import UserError
from mmvtr.evaluation.results import write_about
from mmvtr.functional.metrics.modality_gap import ModalityGap, modality_gap
from mmvtr.registry import HOOKS
from mmvtr.storage import write_text
from mmvtr.storage.arrays import write_array, write_arrays


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
