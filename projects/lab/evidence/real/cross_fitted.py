"""Eta of models trained on halves of the items: the row ``dvtr_crossed`` of run.py.

Two models are trained with DVTR on a half each (drawn by the seed), by the whole schedule, and are
taken at their best on val.  In the training proper a pair's weight comes from the model that has
not seen it: that of the other half where both items are of one half, else the mean of both, as
neither has met that pair.  Its rows were made before there was a
:class:`~mmvtr.models.CrossFittedBelief`, of halves drawn by position and not by id.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import reading
import torch
from methods import METHODS, model_of
from torch import Tensor, nn
from towers import permuted
from training import encode

from mmvtr.models.supervisions.belief import Belief
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels, take

LEVEL = 'gaussian'


class Halves(NamedTuple):
    """Two models' words of a training set.

    Attributes:
        supervisions: of both, faded in.
        texts, videos: by model the Gaussians of all items.
        of_text, of_video: int64 [T] and [V], the half of each, 0 or 1.
    """

    supervisions: list[nn.Module]
    texts: list[Levels]
    videos: list[Levels]
    of_text: Tensor
    of_video: Tensor

    @torch.no_grad()
    def weights(self, rows: Tensor, columns: Tensor, known: Target) -> Tensor:
        """Of the texts ``rows`` and the videos ``columns``, float [R, C]."""
        zero, one = (
            judge(take(t, rows), take(v, columns), known)[0].weights
            for judge, t, v in zip(self.supervisions, self.texts, self.videos)
        )
        of_rows, of_columns = self.of_text[rows][:, None], self.of_video[columns]
        held_out = torch.where(of_rows == 0, one, zero)
        return torch.where(of_rows == of_columns, held_out, (zero + one) / 2)


@MODELS.register_module()
class CrossedBelief(Belief):
    """A Belief whose believers are :class:`Halves`, trained before."""

    halves: Halves

    def own_levels(self, inputs: dict[str, Tensor], data_samples: dict) -> tuple[Levels, Levels]:
        self.batch = data_samples['text_idx'], data_samples['video_idx']
        return {}, {}

    def forward(self, texts: Levels, videos: Levels, target: Target) -> tuple[Target, dict]:
        _, logs = self.supervision(texts, videos, target)
        made, sums = self._spared(target._replace(weights=self.word(target)), target, self.power)
        return made, {**logs, **self._figures(sums)}

    def word(self, target: Target) -> Tensor:
        """Weights of the pairs of the batch."""
        return self.halves.weights(*self.batch, target)


@MODELS.register_module()
class PermutedCrossedBelief(CrossedBelief):
    """A control: these weights, permuted over the unannotated pairs of the batch."""

    def word(self, target: Target) -> Tensor:
        return permuted(super().word(target), target.positives)


def cross(place: Any, data: Any, rate: float, seed: int) -> None:
    """Train a model on each half of the items, and let them see the whole training set."""
    from run import fit

    method = METHODS['dvtr']
    of_video = halves_of(len(data.videos), seed)
    everything = reading.whole(data)
    found: list[list] = [[], [], []]
    for half in (0, 1):
        some = copy.copy(data)
        some.videos_with_text = [v for v in data.videos_with_text if of_video[v] == half]
        trained = fit(place, method, model_of(method, place.about, place.text), some, rate, seed)
        trained.model.load_state_dict(trained.best)
        model = trained.model.eval()
        for module in model.supervision.modules():
            if hasattr(module, 'progress'):
                module.progress = 1.0
        sides = ({LEVEL: side[LEVEL]} for side in encode(model, everything.inputs))
        for one, kept in zip((model.supervision, *sides), found):
            kept.append(one)
    CrossedBelief.halves = Halves(*found, of_video[everything.own], of_video)


def halves_of(count: int, seed: int) -> Tensor:
    """Int64 [count], the half of each item, drawn."""
    order = np.random.default_rng(seed).permutation(count)
    of_item = torch.zeros(count, dtype=torch.long)
    of_item[order[count // 2 :]] = 1
    return of_item
