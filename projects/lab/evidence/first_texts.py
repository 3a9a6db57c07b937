"""Which text comes first where a clip asks: "sure first" among rules that know as much or less.

    python projects/lab/evidence/first_texts.py [--corpora 37 38 ...] [--jobs 1]

Each rule moves one text to the head of a clip's list and leaves the rest as it is, so that v2t R@1
is what it can cost.  A vague text is easily true: beside P@1 stand the bits that a true first text
says of its clip, log2(clips / clips that it is true of), 0 of a wrong one, and how many clips it is
true of.  Generality is counted in the captions of training, which sure first reads as well: how
surely they imply a text, on average.

Written down before a test was looked at:

- Rules: the list as it is; sure first as users get it (.8, the default temperature) and at .02,
  with which it was measured before, and .07, the model's; the best-scored text of the more general
  half of the gallery; the most general and the shortest of the ten best.
- The default temperature is a share of a row's reach (its best score less its mean).  The share is
  .02 over the mean reach on corpora 24 to 26, to two digits, and nothing else is chosen.
- Corpora 37 to 39 and 42 to 44, InfoNCE at the rate of the comparison, one training each.
  Differences by corpus, Student's intervals.
- Sure first stays the recommendation if it says more bits than each control at a P@1 that is not
  below it by more than 5 points, or costs less v2t R@1 at no fewer bits.

Of this plan 24 (for the share) and 37 to 39 were run; a command without arguments runs the rest.
(Trainings three times as long were planned as a stronger model, and are left out.)

Results are in cells/first_texts.json; one corpus takes one to three minutes.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import effects
import numpy as np
import torch
from comparison.cells import (
    Training,
    config_of,
    newest,
    outcomes,
    test_relation,
    train,
    write_json,
)
from comparison.files import OWN, load_json
from comparison.general import LAST, UNUSED
from comparison.markdown import table
from fronts import CORPORA
from fronts import LAST as MIDDLE
from planted_runs import CELLS, ROOT, WORK
from seed_statistics import student
from torch import Tensor

from mmvtr.datasets import CaptionImplication
from mmvtr.engine.transforms.stored_queries import read_training_set
from mmvtr.functional import expected_truth, first_places, sure_first
from mmvtr.registry import DATASETS
from mmvtr.structures import Directed, Relation

METHOD = 'infonce'
CHOSEN, JUDGED = UNUSED, (*MIDDLE, *LAST)
SURE, BEST = 0.8, 10
#: What is kept of each rule, and its heading.
MEASURES = {
    'P1': 'v2t P@1',
    'bits': 'bits',
    'clips': 'true of, % of clips',
    'R1': 'v2t R@1',
    'R': 'v2t R@1+5+10',
    'texts': 'different first texts',
}
PLAIN, OURS = 'as it is', 'sure first'


class Asked(NamedTuple):
    """V clips and the T texts of a gallery.

    Attributes:
        scores: float32 [V, T].
        implied: float32 [T, T], how surely text a implies text b.
        general: float32 [T], how surely captions of the training set imply a text, on average.
        words: int64 [T], how many a text has.
    """

    scores: Tensor
    implied: Tensor
    general: Tensor
    words: Tensor

    def surely(self, temperature: float | None) -> Tensor:
        """First texts [V] of sure first."""
        truth = expected_truth(self.scores, self.implied, temperature=temperature)
        return sure_first(self.scores, truth, sure=SURE).argmax(1)

    def of_general(self) -> Tensor:
        """The best-scored of the more general half."""
        out = self.general < self.general.median()
        return self.scores.masked_fill(out, -math.inf).argmax(1)

    def of_best(self, values: Tensor) -> Tensor:
        """Of the ten best the one of the highest value, of equals the best-scored."""
        best = self.scores.topk(BEST, dim=1).indices
        return best.gather(1, values[best].argmax(1, keepdim=True))[:, 0]


RULES: Mapping[str, Callable[[Asked], Tensor]] = {
    PLAIN: lambda asked: asked.scores.argmax(1),
    OURS: lambda asked: asked.surely(None),
    'sure first, temperature .02': lambda asked: asked.surely(0.02),
    "sure first, the model's temperature (.07)": lambda asked: asked.surely(0.07),
    'best-scored of the more general half': Asked.of_general,
    'most general of the ten best': lambda asked: asked.of_best(asked.general),
    'shortest of the ten best': lambda asked: asked.of_best(-asked.words),
}
#: What sure first is compared with.
CONTROLS = tuple(RULES)[-3:]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--corpora', type=int, nargs='+', choices=(*CHOSEN, *JUDGED), default=[*CHOSEN, *JUDGED])
    add('--jobs', type=int, default=1, help='sets of features that are made at a time')
    add('--out', type=Path, default=CELLS / 'first_texts.json')
    args = parser.parse_args()
    os.environ['OMP_NUM_THREADS'] = '1'
    os.chdir(ROOT)  # where configs look for their clips
    known = load_json(args.out) if args.out.exists() else {}
    for seed in args.corpora:
        key = key_of(seed)
        if key not in known:
            one = training(seed)
            effects.features([one], args.jobs)
            train(one)
            known[key] = judged(one)
            write_json(args.out, known, lines=True)
            print(key, known[key], flush=True)
    print(tables(known))


def key_of(seed: int) -> str:
    """Of a corpus in the file."""
    return f'general{seed}'


def training(seed: int) -> Training:
    """On a corpus, at the learning rate of the comparison."""
    name = key_of(seed)
    plan = effects.Plan(
        CORPORA,
        {name: [METHOD]},
        None,
        None,
        CELLS / 'effects',
        WORK / 'effects',
        ROOT / 'projects/lab/evidence/pages/comparison.md',
    )
    condition = CORPORA[name]
    point = dict(effects.known_choices(plan)[condition.family, METHOD][OWN])
    return plan.training(name, METHOD, condition.first_seed, point)


def judged(one: Training) -> dict[str, Any]:
    """What each rule reaches in the test of a training; ``reach`` of its scores."""
    relation = test_relation(one.condition)
    scores = torch.from_numpy(np.load(newest(ROOT / one.folder))).float()
    asked = asked_of(one, scores)
    found: dict[str, Any] = {name: reached(asked, rule, relation) for name, rule in RULES.items()}
    reach = (asked.scores.amax(1) - asked.scores.mean(1)).mean().item()
    return dict(found, reach=round(reach, 4))


def asked_of(one: Training, scores: Tensor) -> Asked:
    """The texts of its test, and what the captions of its training set say of them."""
    cfg = config_of(one)
    data = read_training_set(cfg.train_dataloader.dataset.to_dict())
    witness = CaptionImplication()
    witness.learn(data.videos, data.texts)
    test = dict(cfg.test_dataloader.dataset.to_dict(), video_pipeline=[], text_pipeline=[])
    texts = [record['text'] for record in DATASETS.build(test).texts]
    said = [record['text'] for record in data.texts]
    general = torch.cat([tile.mean(0) for _, tile in witness.among(said, texts).parts()])
    implied = torch.cat([tile for _, tile in witness.among(texts).parts()], dim=1)
    return Asked(scores.t(), implied, general, torch.tensor([len(text.split()) for text in texts]))


def reached(asked: Asked, rule: Callable[[Asked], Tensor], relation: Relation) -> dict[str, float]:
    """Percent of P@1, R@1 and their kin, bits, and how many clips first texts are true of."""
    first = rule(asked)
    leaders = torch.zeros_like(asked.scores).scatter_(1, first[:, None], 1.0)
    lists = first_places(asked.scores, leaders).t()
    found = outcomes(Directed(lists, lists), relation)
    held = relation.truth.t().gather(1, first[:, None])[:, 0]
    clips = relation.truth.sum(1)[first].double() / len(first)
    recalls = np.array(found['v2t_recalls'])
    values = dict(
        P1=100 * held.double().mean().item(),
        bits=torch.where(held, -clips.clamp_min(1e-9).log2(), 0.0).mean().item(),
        clips=100 * clips.mean().item(),
        R1=100 * float((recalls == 3).mean()),
        R=100 * float(recalls.mean()),
        texts=len(set(first.tolist())),
    )
    return {name: round(value, 4) for name, value in values.items()}


def over(known: Mapping[str, Any], rule: str, measure: str, less: str = '') -> list[float]:
    """By corpus of those that judge; ``less``: the rule that is subtracted."""
    found = [known[key] for key in map(key_of, JUDGED) if key in known]
    return [one[rule][measure] - (one[less][measure] if less else 0) for one in found]


def tables(known: Mapping[str, Any]) -> str:
    """The means of the rules, and what sure first has over each control."""
    if not over(known, PLAIN, 'P1'):
        return ''
    rows = [
        [rule, *(mean_of(over(known, rule, name), name) for name in MEASURES)] for rule in RULES
    ]
    names = ('P1', 'bits', 'clips', 'R1')
    less = [
        [rule, *(told(over(known, OURS, name, rule), name) for name in names)]
        for rule in (PLAIN, *CONTROLS)
    ]
    return '\n'.join(
        [
            table(['first text', *MEASURES.values()], rows),
            table([f'{OURS} less', *(MEASURES[name] for name in names)], less),
        ]
    )


def mean_of(values: Sequence[float], name: str) -> str:
    """With the digits of its measure."""
    return f'{statistics.mean(values):.{digits(name)}f}'


def told(values: Sequence[float], name: str) -> str:
    """'+1.0 [-1.0, +3.0]', over corpora; of one without an interval."""
    ends = (statistics.mean(values), *student(values))
    mean, low, high = (f'{value + 0.0:+.{digits(name)}f}' for value in ends)
    return f'{mean} [{low}, {high}]' if len(values) > 1 else mean


def digits(name: str) -> int:
    """After the point."""
    return {'bits': 2, 'texts': 0}.get(name, 1)


if __name__ == '__main__':
    main()
