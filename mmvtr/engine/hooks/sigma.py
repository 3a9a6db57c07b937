"""Writes how uncertain a probabilistic model is of each text and each video."""

from __future__ import annotations

import csv
import io
import os

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvtr.engine.loop.evaluation import Evaluation
from mmvtr.registry import HOOKS
from mmvtr.storage import write_text


@HOOKS.register_module()
class SigmaFileHook(Hook):
    """Writes ``sigma_<mode>.csv`` to the work dir at each evaluation: kind, id, sigma.

    Sigma is the geometric mean over the dimensions of an item's Gaussian (UATVR Fig. 3); the most
    uncertain items come first.  Ids are quoted and exact, also one that begins with ``=``: they
    must match those of other tables, so a spreadsheet is to import the column as text.

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
