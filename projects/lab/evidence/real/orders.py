"""Which order of queries finds errors: sigmas, softmax, calibrated P, an ensemble, of trained rows.

    python projects/lab/evidence/real/orders.py --sets F J --only infonce pcmepp --seeds 20 21
    python projects/lab/evidence/real/orders.py --set FOLDER --only infonce     # your features
    python projects/lab/evidence/real/orders.py --page          # the tables, from the results

Options are those of run.py, whose rows, towers and schedules these are (pages/orders_plan.md).  A
row is trained as there, and its scores and sigmas of val and test are kept in
work_dirs/real/SET/orders; results, a line a row and seed, are in cells/real/orders.
"""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import torch
from judged import crowd_pairs
from members import STUDENT, member, seeds_of, taught
from methods import METHODS
from reading import bank, dataset
from results import RESULTS, Result, Results
from run import Evaluator, Place, fit, parse_args, places_of, quiet, rows_of, score
from sets import in_a_sentence, shared
from sigma_heads import fit_sigma
from torch import Tensor
from training import encode

from mmvtr.arrays import calibrate_topk
from mmvtr.functional import geometric_sigma, rejection_ratio, risk_coverage

CELLS = RESULTS / 'orders'
DIRECTIONS = ('t2v', 'v2t')
#: Shares of the queries that are answered.
COVERAGES = tuple(n / 10 for n in range(1, 11))
#: The row to whose vectors ProbVLM's heads are fitted.
FROZEN = 'infonce'
#: The row of all asked seeds that make an ensemble, and the rows that are held against it.
MEMBERS, ENSEMBLED = 'infonce', ('infonce', 'student')
FOLDS, RIDGES = 5, (1.0, 10.0, 100.0, 1000.0)


class Kept(NamedTuple):
    """What a trained row says of a split.

    Attributes:
        scores: float32 [T, V].
        own: int64 [T], the item of each text.
        temperature: of its softmax.
        texts, videos: float32 [T, D] and [V, D], unit vectors; empty of a row that does not compare
            by their cosine.
        sigmas: log sigma of texts [T] and of videos [V], by the name of what they are from.
    """

    scores: Tensor
    own: Tensor
    temperature: float
    texts: Tensor
    videos: Tensor
    sigmas: Mapping[str, tuple[Tensor, Tensor]]

    def of(self, direction: str) -> tuple[Tensor, Tensor]:
        """Scores [Q, N] with which queries ask, and which are right, bool [Q, N]."""
        right = self.own[:, None] == torch.arange(self.scores.shape[1])
        return (self.scores, right) if direction == 't2v' else (self.scores.t(), right.t())

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        found = {name: getattr(self, name).numpy() for name in ('scores', 'own', 'texts', 'videos')}
        for name, pair in self.sigmas.items():
            found.update({f'{name}.{n}': x.numpy() for n, x in enumerate(pair)})
        part = path.with_suffix('.part.npz')
        np.savez(part, temperature=self.temperature, **found)
        part.rename(path)

    @classmethod
    def read(cls, path: Path) -> Kept:
        with np.load(path) as stored:
            found = {name: torch.from_numpy(stored[name]) for name in stored.files}
        sigmas = {x[:-2]: (found[x], found[x[:-2] + '.1']) for x in found if x.endswith('.0')}
        plain = (found[name] for name in ('texts', 'videos'))
        return cls(found['scores'], found['own'], float(found['temperature']), *plain, sigmas)


# -- orders and their figures --------------------------------------------------------------------


def orders(kept: Kept, val: Kept, direction: str, words: Tensor, seed: int) -> dict[str, Tensor]:
    """How unsure each query's first place is, float64 [Q], by name.

    Args:
        words: int64 [T], number of words of each text.
        seed: of the permuted control.
    """
    scores, _ = kept.of(direction)
    top, places = scores.topk(2, 1)
    answer = places[:, 0]
    logits = scores / kept.temperature
    length = words if direction == 't2v' else words[answer]
    found = dict(
        best_score=-top[:, 0],
        margin=top[:, 1] - top[:, 0],
        softmax=logits.logsumexp(1) - logits.amax(1),
        calibrated=-calibrated(val, direction, scores),
        short_first=length,
        long_first=-length,
    )
    random = torch.Generator().manual_seed(seed)
    for name, (texts, videos) in kept.sigmas.items():
        ask, find = (texts, videos) if direction == 't2v' else (videos, texts)
        found[f'{name}_query'], found[f'{name}_answer'] = ask, find[answer]
        found[f'{name}_both'] = ask + find[answer]
        found[f'{name}_permuted'] = ask[torch.randperm(len(ask), generator=random)]
    return {name: x.double() for name, x in found.items()}


def calibrated(val: Kept, direction: str, scores: Tensor) -> Tensor:
    """P(first place is right) by lists of val, float64 [Q]."""
    fit = calibrate_topk(*val.of(direction))
    ranked = scores.amax(1, keepdim=True)
    sums = (scores.double() / fit.temperature).logsumexp(1)
    return fit.places(ranked, sums)[1][:, 0]


def of_members(kept: Kept, members: Sequence[Kept], direction: str) -> dict[str, Tensor]:
    """Orders that read an ensemble: its probability of the answer, and its disagreement."""
    answer = kept.of(direction)[0].argmax(1)
    each = [(x.of(direction)[0].double() / x.temperature).softmax(1) for x in members]
    mean = torch.stack(each).mean(0)
    entropies = [-(p * p.clamp_min(1e-12).log()).sum(1) for p in (mean, *each)]
    return dict(
        ensemble=-mean.gather(1, answer[:, None])[:, 0],
        disagreement=entropies[0] - torch.stack(entropies[1:]).mean(0),
    )


def figures(uncertainty: Tensor, wrong: Tensor) -> dict[str, Any]:
    """Figures of an order of queries, in percent; ``recalls`` at :data:`COVERAGES`.

    Args:
        uncertainty: float [Q], higher is less sure.
        wrong: bool [Q].
    """
    risks = risk_coverage(uncertainty, wrong.double())
    found = dict(
        rejection=round(100 * float(rejection_ratio(uncertainty, wrong.double())), 3),
        aurc=round(100 * float(risks.mean()), 3),
    )
    answered = [max(round(share * len(risks)), 1) for share in COVERAGES]
    return dict(found, recalls=[round(100 * (1 - float(risks[n - 1])), 3) for n in answered])


# -- what a student can carry --------------------------------------------------------------------


def carried(
    kept: Kept, val: Kept, members: Sequence[Kept], of_val: Sequence[Kept], direction: str
) -> dict[str, Tensor]:
    """Orders by a regression of what the ensemble says, or of labels, both fitted on val."""
    x, fit_on = (_features(one, direction) for one in (kept, val))
    p = -of_members(val, of_val, direction)['ensemble']
    target = torch.logit(p.clamp(1e-6, 1 - 1e-6))
    scores, right = val.of(direction)
    hit = right.gather(1, scores.argmax(1)[:, None])[:, 0].double()
    return dict(carried=-_ridge(fit_on, target, x), labels=-_ridge(fit_on, hit, x, logistic=True))


def _features(kept: Kept, direction: str) -> Tensor:
    """Logit of the softmax, best score, margin, and the query's vector, float64 [Q, 3 + D]."""
    scores, _ = kept.of(direction)
    top = scores.topk(2, 1).values.double()
    p = (scores.double() / kept.temperature).softmax(1).amax(1).clamp(1e-9, 1 - 1e-9)
    own = kept.texts if direction == 't2v' else kept.videos
    return torch.cat(
        [torch.logit(p)[:, None], top[:, :1], top[:, :1] - top[:, 1:], own.double()], 1
    )


def _ridge(x: Tensor, y: Tensor, at: Tensor, *, logistic: bool = False) -> Tensor:
    """Values at other rows; the weight is that of the least loss on held-out fifths."""
    mean, spread = x.mean(0), x.std(0) + 1e-9
    x, at = ((torch.nn.functional.pad((z - mean) / spread, (0, 1), value=1.0)) for z in (x, at))
    fold = torch.randperm(len(x), generator=torch.Generator().manual_seed(0)) % FOLDS

    def solved(rows: Tensor, weight: float) -> Tensor:
        own, target = x[rows], y[rows]
        penalty = weight * torch.eye(x.shape[1], dtype=x.dtype)
        penalty[-1, -1] = 0
        beta = torch.zeros(x.shape[1], dtype=x.dtype)
        for _ in range(12 if logistic else 1):  # Newton's steps
            p = (own @ beta).sigmoid() if logistic else own @ beta
            curve = (p * (1 - p)).clamp_min(1e-6) if logistic else torch.ones_like(p)
            slope = own.t() @ (p - target) + penalty @ beta
            beta = beta - torch.linalg.solve((own * curve[:, None]).t() @ own + penalty, slope)
        return beta

    def loss(weight: float) -> float:
        total = 0.0
        for n in range(FOLDS):
            value = x[fold == n] @ solved(fold != n, weight)
            if logistic:
                binary = torch.nn.functional.binary_cross_entropy_with_logits
                total += float(binary(value, y[fold == n], reduction='sum'))
            else:
                total += float((value - y[fold == n]).square().sum())
        return total

    return at @ solved(torch.ones(len(x), dtype=torch.bool), min(RIDGES, key=loss))


# -- rows ----------------------------------------------------------------------------------------


def kept_of(place: Place, name: str, seed: int, rate: float) -> dict[str, Kept]:
    """Val and test of a row, trained if it is not there."""
    paths = {x: place.folder / 'orders' / f'{name}_{seed}_{x}.npz' for x in ('val', 'test')}
    if not all(path.exists() for path in paths.values()):
        start, model = time.time(), trained(place, name, seed, rate)
        evaluator = Evaluator(place, METHODS[name])
        for split, path in paths.items():
            said(model, evaluator, split).write(path)
        print(f'{place.name} {name} seed {seed}: {time.time() - start:.0f} s', flush=True)
    return {split: Kept.read(path) for split, path in paths.items()}


def trained(place: Place, name: str, seed: int, rate: float) -> torch.nn.Module:
    """The model of a row with the weights of its best epoch on val, trained as run.py does.

    Raises:
        ValueError: the row is more than one training.
    """
    method, own = METHODS[name], seed
    if method.copies > 1 or method.crossed or 'teacher' in method.reads:
        raise ValueError(f'{name} is several trainings: its order is that of an ensemble')
    if name == MEMBERS:
        found = member(place, rate, seed)
    else:
        kind = Evaluator(place, method).kind
        data = dataset(place.folder, 'train', kind, tuple(method.reads), method.epoch_unit)
        if method.taught:
            data, own = taught(place, data, rate, seeds_of(method.taught, seed)), seed + STUDENT
        found = fit(place, name, place.config(method), data, rate, own)
    found.model.load_state_dict(found.best)
    return found.model


@torch.no_grad()
def said(model: torch.nn.Module, evaluator: Evaluator, split: str) -> Kept:
    """Scores, vectors and sigmas of a model."""
    texts, videos = evaluator.levels(model, split)
    vectors = (torch.empty(0), torch.empty(0))
    if hasattr(model.similarity, 'flat') and 'global' in texts:
        vectors = tuple(
            torch.nn.functional.normalize(x['global'].mean, dim=1) for x in (texts, videos)
        )
    level = next((x for x in texts if texts[x].log_std is not None), None)
    sigmas = {}
    if level is not None:
        sigmas['sigma'] = tuple(geometric_sigma(x[level].log_std).log() for x in (texts, videos))
    temperature = float(model.temperature().detach())
    own = evaluator.split(split).own
    return Kept(score(model, texts, videos), own, temperature, *vectors, sigmas)


def frozen(place: Place, name: str, seed: int, rate: float, test: Kept) -> tuple[Tensor, Tensor]:
    """ProbVLM's log sigmas of texts and videos, from heads fitted to a model's training vectors."""
    model, known = trained(place, name, seed, rate), bank(place.folder, place.text, 10**9)
    with torch.no_grad():
        texts, videos = (x['global'].mean for x in encode(model, known.inputs))
    heads = fit_sigma(texts, videos[known.own], epochs=60, patience=8, seed=seed)
    return heads.sigma(test.texts, 'text').log(), heads.sigma(test.videos, 'video').log()


def people_right(place: Place) -> Optional[set[tuple[int, int]]]:
    """Pairs of a text and an image of F's test set that the crowd calls a match."""
    if place.name != 'F':
        return None
    test = Evaluator(place, METHODS['infonce']).split('test')
    row, column = ({x: n for n, x in enumerate(names)} for names in (test.texts, test.videos))
    return {
        (row[text], column[image])
        for (text, image), share in crowd_pairs(shared()).items()
        if share > 0.5 and text in row and image in column
    }


def of_row(place: Place, name: str, seed: int, seeds: Sequence[int], rate: float) -> Result:
    """All orders of a row's answers, and their figures."""
    kept = kept_of(place, name, seed, rate)
    test, val = kept['test'], kept['val']
    if name == FROZEN and len(test.texts):
        test = test._replace(sigmas=dict(probvlm=frozen(place, name, seed, rate, test)))
    words = torch.tensor(
        [len(x.split()) for x in Evaluator(place, METHODS[name]).split('test').captions]
    )
    members = []
    if name in ENSEMBLED:
        members = [kept_of(place, MEMBERS, x, rate) for x in seeds]
    allowed, row = (
        people_right(place),
        dict(set=place.name, text=place.text, method=name, seed=seed),
    )
    for direction in DIRECTIONS:
        scores, right = test.of(direction)
        answer = scores.argmax(1)
        wrong = ~right.gather(1, answer[:, None])[:, 0]
        found = orders(test, val, direction, words, seed)
        if len(members) > 1:
            sides = [[x[split] for x in members] for split in ('test', 'val')]
            found.update(of_members(test, sides[0], direction))
            if name == 'student':
                found.update(carried(test, val, *sides, direction))
        row[direction] = {x: figures(value, wrong) for x, value in found.items()}
        if allowed is not None and direction == 't2v':
            also = torch.tensor([pair in allowed for pair in enumerate(answer.tolist())])
            row['people'] = {x: figures(value, wrong & ~also) for x, value in found.items()}
            row['forgiven'] = int((wrong & also).sum())
    return row


def add_row(
    results: Results, place: Place, name: str, seed: int, seeds: Sequence[int], rate: float
) -> None:
    """Add a row's orders to the results, once, and print them."""
    if results.find(set=place.name, text=place.text, method=name, seed=seed):
        return
    row = of_row(place, name, seed, seeds, rate)
    results.add(row)
    found = {x: round(y['rejection'], 1) for x, y in row['t2v'].items()}
    print(place.name, name, seed, found, flush=True)


def main() -> None:
    if '--page' in sys.argv[1:]:
        from orders_tables import write_page

        return write_page()
    args = parse_args()
    results = Results(CELLS if args.results == RESULTS else args.results)
    quiet()
    places, end = (
        in_a_sentence(lambda: places_of(args), ValueError),
        time.time() + 60 * args.minutes,
    )
    for place, name in rows_of(places, args.only):
        place.transforms = ()
        rate = 2e-3 if place.name == 'F' else 1e-3
        for seed in args.seeds:
            if time.time() > end:
                return
            try:
                add_row(results, place, name, seed, args.seeds, rate)
            except Exception:
                print(traceback.format_exc(), flush=True)


if __name__ == '__main__':
    main()
