"""Is eta of models trained on halves better than that of the model as it was early?

    python projects/lab/evidence/real/cross_fitted.py OUT.jsonl --sets J F --seeds 0 1 2 3 4

Two models are trained with DVTR on a half of the items each (drawn by the seed), by the whole
schedule, and taken at their best on val.  In the training proper the weights of a pair come from
the model that has not seen it: that of the other half where both items are of one half, else the
mean of both, as neither has met that pair.  Beside the rows of run.py: learning rate and schedule
of the row ``dvtr_early``.  ``auc``: of J, people's matches among unannotated training pairs.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import reading
import torch
from judged import Judged, crowd_pairs
from methods import METHODS, Method, model_of
from run import RESULTS, WORK, Evaluator, Place, Results
from sets import SETS, prepare, shared
from torch import Tensor, nn
from training import encode, train

from mmvtr.functional.metrics.relevance import auc
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

    def train(self, mode: bool = True) -> CrossedBelief:
        if self._note not in self._model.watchers:
            self._model.watchers.append(self._note)
        return super().train(mode)

    def _note(self, _: Levels, __: Levels, samples: dict) -> None:
        self.batch = samples['text_idx'], samples['video_idx']

    def own_levels(self, inputs: dict[str, Tensor]) -> tuple[Levels, Levels]:
        return {}, {}

    def forward(self, texts: Levels, videos: Levels, target: Target) -> tuple[Target, dict]:
        _, logs = self.supervision(texts, videos, target)
        made = target._replace(weights=self.halves.weights(*self.batch, target))
        made, sums = self._spared(made, target, self.power)
        return made, {**logs, **self._figures(sums)}


def halves_of(place: Place, method: Method, data: Any, rate: float, seed: int) -> Halves:
    """Train both and let them see the whole set."""
    order = np.random.default_rng(seed).permutation(len(data.videos))
    of_video = torch.zeros(len(data.videos), dtype=torch.long)
    of_video[order[len(order) // 2 :]] = 1
    everything = reading.whole(data)
    found: list[list] = [[], [], []]
    for half in (0, 1):
        some = copy.copy(data)
        some.videos_with_text = [v for v in data.videos_with_text if of_video[v] == half]
        model = trained(place, method, some, rate, seed).eval()
        for module in model.supervision.modules():
            if hasattr(module, 'progress'):
                module.progress = 1.0
        sides = ({LEVEL: side[LEVEL]} for side in encode(model, everything.inputs))
        for one, list_ in zip((model.supervision, *sides), found):
            list_.append(one)
    return Halves(*found, of_video[everything.own], of_video)


def trained(place: Place, method: Method, data: Any, rate: float, seed: int) -> nn.Module:
    """The model at its best on val; ``.at_last``: its last weights."""
    made = train(
        model_of(method, place.about, place.text),
        data,
        place.schedule,
        rate=rate,
        supervision_rate=method.rate,
        seed=seed,
        judge=Evaluator(place, method).judge,
        hooks=[],
        work_dir=WORK / 'runs' / f'{place.name}_crossed',
    )
    made.model.at_last = copy.deepcopy(made.model.state_dict())
    made.model.load_state_dict(made.best)
    return made.model


def auc_of(halves: Halves, data: Any) -> float:
    """Of what is spared, people's matches above what they refused, in percent."""
    everything = reading.whole(data)
    weights = halves.weights(
        torch.arange(len(everything.texts)),
        torch.arange(len(everything.videos)),
        Target(everything.positives),
    )
    crowd = Judged.of(crowd_pairs(shared()), everything.texts, everything.videos)
    spared, yes = 1 - weights[crowd.rows, crowd.columns], crowd.values > 0.5
    return 100 * float(auc(spared[yes], spared[~yes]))


def one(place: Place, seed: int, rate: float) -> dict[str, Any]:
    """Three trainings and their figures."""
    start, method = time.process_time(), METHODS['dvtr']
    data = reading.dataset(place.folder, 'train', place.text)
    CrossedBelief.halves = halves_of(place, method, data, rate, seed)
    crossed = method._replace(change={**method.change, 'belief': dict(type='CrossedBelief')})
    model, evaluator = trained(place, crossed, data, rate, seed), Evaluator(place, crossed)
    row = dict(set=place.name, method='dvtr_crossed', seed=seed, rate=rate)
    row['best'] = evaluator.test(model, transforms=False)
    model.load_state_dict(model.at_last)
    row['last'] = evaluator.test(model, transforms=False)
    if place.name == 'J':
        row['auc'] = auc_of(CrossedBelief.halves, data)
    for when in ('best', 'last'):
        row[when].pop('hits')
    return dict(row, seconds=time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('out', type=Path)
    parser.add_argument('--sets', nargs='+', choices=SETS, default=['J', 'F'])
    parser.add_argument('--seeds', nargs='+', type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument('--minutes', type=float, default=1e9, help='begin nothing after so long')
    args = parser.parse_args()
    warnings.simplefilter('ignore')
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    results, end = Results(RESULTS), time.time() + 60 * args.minutes
    lines = args.out.read_text().splitlines() if args.out.exists() else []
    done = {(row['set'], row['seed']) for row in map(json.loads, lines)}
    for name in args.sets:
        made = (WORK / name / 'made.json').exists()
        folder = WORK / name if made else prepare(name, SETS[name](), WORK / name)
        place = Place(name, folder, 'minilm')
        for seed in args.seeds:
            if (name, seed) not in done and time.time() < end:
                row = one(place, seed, results.rate(name, 'minilm', 'dvtr_early'))
                with args.out.open('a') as file:
                    file.write(json.dumps(row) + '\n')


if __name__ == '__main__':
    main()
