"""What the papers add to a student of three: variants on J, judged on val.

    python projects/lab/evidence/real/additions.py                          # all, seeds 30 to 32
    python projects/lab/evidence/real/additions.py --test student_crossed --seeds 20 21 22 23 24

A line a training goes to ``cells/real/additions``; with ``--test`` it is a row of J as run.py's.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
from typing import Any, Callable, NamedTuple, Sequence

import measure
import reading
import run
import torch
from members import STUDENT, logits_of, seeds_of, taught
from methods import METHODS, Method
from results import RESULTS, read_rows
from sets import SETS, in_a_sentence, prepare
from torch import Tensor
from towers import KeptTable

from mmvtr.models.supervisions.teachers import StoredTeachers
from mmvtr.models.target import Filled, Target
from mmvtr.registry import MODELS
from mmvtr.structures import take

RATE, FLOOR, SOFT = 1e-3, 0.02, 4.0
OUT = RESULTS / 'additions/J.jsonl'


@MODELS.register_module()
class TeachersEta(StoredTeachers):
    """Stored teachers, whose logits also weigh the negatives: DVTR's eta of p = e^(x / 4).

        x = mean of the judges' logits - their standard deviation
        eta_tv = max(1 - p_tv / max(p_t, p_v), .02),  p_t, p_v: of the best own pair

    Args:
        judges: so many of the teachers.
    """

    def __init__(self, *, judges: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.judges = judges

    def block(self, begun: Any, rows: slice, target: Target) -> Filled:
        """As of the base, with weights; ``rows`` are all texts."""
        texts, videos = begun
        made, sums = super().block(begun, rows, target)
        with torch.no_grad():
            logits = torch.stack(self.logits(take(texts, rows), videos)[: self.judges])
            weights = eta(logits.mean(0) - logits.std(0, correction=0), target.positives)
        return made._replace(weights=weights), sums


def eta(x: Tensor, positives: Tensor) -> Tensor:
    """Weights of pairs [T, V] by log odds x [T, V], see :class:`TeachersEta`."""
    own = x.masked_fill(~positives, float('-inf'))
    best = torch.maximum(own.amax(1, keepdim=True), own.amax(0, keepdim=True))
    return (1 - ((x - best) / SOFT).exp()).clamp_min(FLOOR)


class Variant(NamedTuple):
    """A method, and how its training set gets the vectors of its teachers."""

    method: Method
    teach: Callable[..., KeptTable] = taught


def crossed(place: run.Place, data: KeptTable, rate: float, seeds: Sequence[int]) -> KeptTable:
    """Members that have not seen a third of the videos each.

    The logit of a pair is the mean of two: of the member that has not seen the text's third, and of
    that which has not seen the video's.
    """
    thirds = [*range(len(data.videos))]
    random.Random(seeds[0]).shuffle(thirds)
    of_video = torch.tensor(thirds) % len(seeds)
    of_text = of_video[[text['video_idx'][0] for text in data.texts]]
    everything, parts = reading.whole(data), []
    for k, seed in enumerate(seeds):
        some = copy.copy(data)
        some.videos_with_text = [v for v in data.videos_with_text if of_video[v] != k]
        config = place.config(METHODS['infonce'])
        trained = run.fit(place, 'infonce', config, some, rate, seed)
        trained.model.load_state_dict(trained.best)
        texts, videos = logits_of(trained.model, everything)
        lacks_text, lacks_video = (of_text == k).float(), (of_video == k).float()
        parts.append((texts * lacks_text[:, None] / 2, videos))
        parts.append((texts / 2, videos * lacks_video[:, None]))
    return data.with_vectors(joined=tuple(torch.cat(side, 1) for side in zip(*parts)))


def debiased(place: run.Place, data: KeptTable, rate: float, seeds: Sequence[int]) -> KeptTable:
    """The members' mean logits with biases that make the whole training set's matrix balanced."""
    known = taught(place, data, rate, seeds).everything()['data_samples']
    sides = [torch.cat([*known[f'{side}_vectors'].values()], 2)[:, 0] for side in ('text', 'video')]
    texts, videos = sides[0] / len(seeds), sides[1]
    of_texts, of_videos = balanced(texts @ videos.t())
    ones = [torch.ones(len(side), 1) for side in (texts, videos)]
    return data.with_vectors(
        joined=(
            torch.cat([texts, of_texts[:, None], ones[0]], 1),
            torch.cat([videos, ones[1], of_videos[:, None]], 1),
        )
    )


def balanced(logits: Tensor, rounds: int = 50) -> tuple[Tensor, Tensor]:
    """Biases of texts [T] and videos [V]: e^logits then has equal row sums, and columns of 1."""
    of_videos = logits.new_zeros(logits.shape[1])
    for _ in range(rounds):
        of_texts = -(logits + of_videos).logsumexp(1)
        of_videos = -(logits + of_texts[:, None]).logsumexp(0)
    return of_texts, of_videos


def _variant(**supervision: Any) -> Method:
    """A student's method with another supervision."""
    plain = METHODS['student']
    change = {**plain.change, 'supervision': {**plain.change['supervision'], **supervision}}
    return plain._replace(change=change)


JOINED = _variant(teachers=['joined'])
VARIANTS = dict(
    student=Variant(METHODS['student']),
    student_eta_three=Variant(_variant(type='TeachersEta', judges=3)),
    student_eta_one=Variant(_variant(type='TeachersEta', judges=1)),
    student_crossed=Variant(JOINED, crossed),
    student_debiased=Variant(JOINED, debiased),
    student_ncl=Variant(METHODS['student']._replace(config='ncl_clip4clip_msrvtt')),
)
METHODS.update({name: variant.method for name, variant in VARIANTS.items()})


def on_val(place: run.Place, name: str, seed: int) -> dict[str, Any]:
    """The rsum on val of a variant's best epoch, raw and with a bank."""
    method, teach = VARIANTS[name]
    data = reading.dataset(place.folder, 'train', place.text)
    data = teach(place, data, RATE, seeds_of(method.taught, seed))
    config = place.config(method)
    found = run.fit(place, name, config, data, RATE, seed + STUDENT)
    found.model.load_state_dict(found.best)
    evaluator = run.Evaluator(place, method)
    scores, bank = evaluator.scores(found.model, 'val', bank=True)
    positives = evaluator.split('val').positives
    kind = 'unbalanced_sinkhorn'
    setting = measure.best_setting(kind, scores, bank, positives)
    each = dict(
        val=measure.Both(scores, scores), bank=measure.transformed(kind, setting, scores, bank)
    )
    figures = {
        key: measure.recalls(measure.ranks(both, positives))['rsum'] for key, both in each.items()
    }
    return dict(method=name, seed=seed, seconds=round(found.seconds, 1), **figures)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--test', choices=VARIANTS, help='test this one, as a row of J')
    parser.add_argument('--only', nargs='+', choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument('--seeds', nargs='+', type=int, default=[30, 31, 32])
    args = parser.parse_args()
    run.quiet()
    folder = run.WORK / 'J'
    made = (folder / 'made.json').exists()
    place = run.Place('J', folder if made else prepare('J', SETS['J'](), folder), 'minilm')
    if args.test:
        results = run.Results(RESULTS)
        for seed in args.seeds:
            if not results.find(set='J', text='minilm', method=args.test, seed=seed):
                row = run.one(place, args.test, seed, RATE, teach=VARIANTS[args.test].teach)
                results.add(row)
                print(run.said(row), flush=True)
        return
    OUT.parent.mkdir(exist_ok=True)
    there = {(row['method'], row['seed']) for row in read_rows(OUT.parent)}
    for name in args.only:
        for seed in args.seeds:
            if (name, seed) not in there:
                row = on_val(place, name, seed)
                print(row, flush=True)
                with open(OUT, 'a') as file:
                    file.write(json.dumps(row) + '\n')


if __name__ == '__main__':
    in_a_sentence(main)
