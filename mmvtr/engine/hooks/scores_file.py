"""Keeps the score matrices of an evaluation, for whoever wants to measure further things."""

from __future__ import annotations

import os
from typing import Sequence

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvtr.engine.loop.evaluation import Evaluation
from mmvtr.evaluation.results import write_about
from mmvtr.registry import HOOKS
from mmvtr.storage.arrays import write_array, write_arrays


@HOOKS.register_module()
class ScoresFileHook(Hook):
    """Writes ``scores_<mode>.npy`` to the work dir at each evaluation: float32 [T, V].

    Rows are texts and columns videos, in the order of the dataset (broken videos that it skips have
    no column). This is the SCORES.npy of ``tools/analysis_tools/eval_scores.py``. Each transformed
    score goes to ``scores_<mode>_<transform>.npz`` beside it, keys ``t2v`` (read by rows) and
    ``v2t`` (read by columns), float32 [T, V] both. A file of an earlier evaluation is replaced.
    Beside each is a json of its name that says what set and what trainings the scores are of, which
    ``compare.py`` reads.

    Args:
        modes: evaluations to write, some of 'val' and 'test'.

    Raises:
        ValueError: another mode.
        RuntimeError: (at evaluation) a similarity that scores a shortlist only.
    """

    priority = 'LOWEST'  # after the hooks that transform scores

    def __init__(self, *, modes: Sequence[str] = ('test',)) -> None:
        if isinstance(modes, str) or not set(modes) <= {'val', 'test'}:
            raise ValueError(f"modes: some of ('val', 'test'), not {modes!r}")
        self.modes = tuple(modes)

    def after_scoring(self, runner: Runner, evaluation: Evaluation) -> None:
        """Write the scores; called on rank 0."""
        if evaluation.mode not in self.modes:
            return
        if not evaluation.exact:
            raise RuntimeError(
                'ScoresFileHook: the similarity ranks a shortlist only, the rest are no scores'
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
