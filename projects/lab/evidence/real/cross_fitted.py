"""The trainings on halves of the items that the row ``dvtr_crossed`` of run.py reads."""

from __future__ import annotations

import copy
from typing import Any

import torch
from methods import METHODS
from towers import permuted

from mmvtr.models import CrossFittedTeachers
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


@MODELS.register_module()
class PermutedCrossFittedTeachers(CrossFittedTeachers):
    """A control: its weights, permuted over the unannotated pairs of the batch."""

    def forward(self, texts: Levels, videos: Levels, target: Target) -> tuple[Target, dict]:
        made, logs = super().forward(texts, videos, target)
        return made._replace(weights=permuted(made.weights, target.positives)), logs


def halves(place: Any, data: Any, rate: float, seed: int) -> list[str]:
    """Train DVTR on each half of a dataset; the files of their best weights.

    Args:
        data: with the record transform ``Halves``, as the training proper reads it.
    """
    from run import WORK, fit

    method, paths = METHODS['dvtr'], []
    folder = WORK / 'halves'
    folder.mkdir(parents=True, exist_ok=True)
    for half in (0, 1):
        some = copy.copy(data)
        some.videos_with_text = [v for v in data.videos_with_text if data.videos[v]['half'] == half]
        trained = fit(place, 'dvtr', place.config(method), some, rate, seed)
        paths.append(folder / f'{place.name}_{place.text}_{seed}_{half}.pth')
        torch.save(dict(state_dict=trained.best), paths[-1])
    return [str(path) for path in paths]
