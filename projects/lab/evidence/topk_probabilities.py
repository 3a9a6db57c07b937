"""P(right) beside the places of lists: what is said, and what is true, on pairs never seen.

    python projects/lab/evidence/topk_probabilities.py DATA     # goes on where it was ended
    python projects/lab/evidence/topk_probabilities.py --page
    python projects/lab/evidence/topk_probabilities.py DATA --perfect    # what size alone gives

Sets of auto_rule.py and CBVS' judged lists.  Writes cells/topk_probabilities.json, which
pages/topk_probabilities.md shows.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import torch
from auto_rule import sets
from torch import Tensor

import mmvtr
from mmvtr.arrays import calibrate_topk
from mmvtr.functional import reliability

HERE = Path(__file__).resolve().parent
SPLITS, BINS, PRECISION = 3, 5, 0.9
#: Error that is allowed, and how often a perfect calibration is drawn.
WANTED, DRAWS = 0.05, 1000
WAYS = dict(
    raw=dict(transform=None), debiased=dict(transform='unbalanced_sinkhorn', temperature='11%')
)


def summary(said: list[Tensor], true: list[Tensor]) -> dict[str, float]:
    """Of all splits together, and the mean of one split beside what chance alone gives there."""
    whole = reliability(torch.cat(said), torch.cat(true), bins=BINS)
    each = [reliability(p, y, bins=BINS) for p, y in zip(said, true)]
    return dict(
        said=torch.cat(said).mean().item(),
        true=torch.cat(true).double().mean().item(),
        error=whole.error,
        split=float(np.mean([x.error for x in each])),
        chance=float(np.mean([x.noise for x in each])),
    )


def answered(fits: Any, said: list[Tensor], true: list[Tensor]) -> dict[str, float]:
    """How often the promised precision failed, and how many queries were answered."""
    shown = [p >= c.threshold(PRECISION) for c, p in zip(fits, said)]
    wrong = [bool(x.any()) and float(y[x].double().mean()) < PRECISION for x, y in zip(shown, true)]
    kept = torch.cat([y[x] for x, y in zip(shown, true)]).double()
    return dict(
        answered=float(torch.cat(shown).double().mean()),
        precision=float(kept.mean()) if len(kept) else float('nan'),
        failed=float(np.mean(wrong)),
    )


def of_set(texts: Tensor, items: Tensor, way: dict[str, Any]) -> dict[str, Any]:
    first, ten, right, among, fits = [], [], [], [], []
    for seed in range(SPLITS):
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(texts)))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        for test, bank in (halves, halves[::-1]):
            fitted = mmvtr.fit(items[test], (texts[bank], items[bank]), **way).calibrate()
            found = fitted.search(texts[test], 10)
            own = found.ids == torch.arange(len(test))[:, None]
            first.append(found.probabilities[:, 0])
            ten.append(found.any_right[:, -1])
            right.append(own[:, 0])
            among.append(own.any(1))
            fits.append(fitted.calibration_)
    found = dict(first=summary(first, right), ten=summary(ten, among))
    return dict(found, **answered(fits, first, right), queries=len(halves[0]))


def perfect(texts: Tensor, items: Tensor, way: dict[str, Any]) -> dict[str, float]:
    """Errors of the first place, all splits together, and of a perfect calibration that says the
    same: each query is right with the mean of what is said of it, in all splits alike."""
    said, true, asked = [], [], []
    for seed in range(SPLITS):
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(texts)))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        for test, bank in (halves, halves[::-1]):
            fitted = mmvtr.fit(items[test], (texts[bank], items[bank]), **way).calibrate()
            found = fitted.search(texts[test], 1)
            said.append(found.probabilities[:, 0])
            true.append(found.ids[:, 0] == torch.arange(len(test)))
            asked.append(test)
    p, y, query = torch.cat(said), torch.cat(true), torch.cat(asked)
    random = torch.Generator().manual_seed(0)
    drawn = torch.tensor(
        [
            reliability(p, torch.rand(len(texts), generator=random)[query] < p, bins=BINS).error
            for _ in range(DRAWS)
        ]
    )
    error = reliability(p, y, bins=BINS).error
    return dict(
        error=error,
        mean=drawn.mean().item(),
        most=drawn.quantile(0.95).item(),
        above=(drawn > WANTED).double().mean().item(),
        larger=(drawn >= error).double().mean().item(),
    )


def of_perfect(data: Path) -> None:
    """Cells of CLAP, in cells/list_perfect.json."""
    found = []
    for name, a, b in sets(data):
        if name.startswith('clap'):
            for direction, two in (('t2v', (a, b)), ('v2t', (b, a))):
                for way, options in WAYS.items():
                    found.append(
                        dict(set=f'{name}, {direction}', way=way, **perfect(*two, options))
                    )
                    print(found[-1], flush=True)
    (HERE / 'cells/list_perfect.json').write_text(json.dumps(found, indent=1) + '\n')


def cbvs(folder: Path) -> dict[str, Any]:
    """Lists of covers that people graded, 2 = fits; half of the queries calibrate."""
    lines = [
        [line.split('\t') for line in (folder / name).read_text('utf-8').splitlines()]
        for name in ('cbvs20k.txt', 'inference_result.txt')
    ]
    lists: dict[str, list[tuple[float, bool]]] = {}
    for (query, item, _, grade), (_, same, again, score) in zip(*lines):
        assert (query, item) == (same, again)
        lists.setdefault(query, []).append((float(score), int(grade) == 2))
    longest = max(map(len, lists.values()))
    scores = torch.full((len(lists), longest), -torch.inf)
    right = torch.zeros(len(lists), longest, dtype=torch.bool)
    for row, places in enumerate(lists.values()):
        places.sort(key=lambda x: -x[0])
        scores[row, : len(places)] = torch.tensor([x for x, _ in places])
        right[row, : len(places)] = torch.tensor([x for _, x in places])
    first, ten, hit, among, fits = [], [], [], [], []
    for seed in range(SPLITS):
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(scores)))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        for test, bank in (halves, halves[::-1]):
            fit = calibrate_topk(scores[bank], right[bank])
            sums = (scores[test].double() / fit.temperature).logsumexp(1)
            _, both = fit.places(scores[test], sums)
            first.append(both[:, 0])
            ten.append(both[:, :10][:, -1])
            hit.append(right[test][:, 0])
            among.append(right[test][:, :10].any(1))
            fits.append(fit)
    found = dict(first=summary(first, hit), ten=summary(ten, among))
    return dict(found, **answered(fits, first, hit), queries=len(halves[0]))


def rows(data: Path, done: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """What is not there yet."""
    for name, a, b in sets(data):
        for direction, two in (('t2v', (a, b)), ('v2t', (b, a))):
            for way, options in WAYS.items():
                if (key := (f'{name}, {direction}', way)) not in done:
                    yield dict(set=key[0], way=way, **of_set(*two, options))
    if ('CBVS, judged lists', 'raw') not in done:
        yield dict(set='CBVS, judged lists', way='raw', **cbvs(data / 'real_scores/cbvs'))


def table(found: list[dict[str, Any]]) -> str:
    lines = [
        '| set | ranked | queries | first: said, true | error | a split | chance alone | '
        'among ten: said, true | error | answered at .9 | right of these | below .9 |',
        '|---' * 12 + '|',
    ]
    for x in found:
        one, ten = x['first'], x['ten']
        lines.append(
            f'| {x["set"]} | {x["way"]} | {x["queries"]} | {one["said"]:.3f}, {one["true"]:.3f} | '
            f'{one["error"]:.3f} | {one["split"]:.3f} | {one["chance"]:.3f} | '
            f'{ten["said"]:.3f}, {ten["true"]:.3f} | {ten["error"]:.3f} | '
            f'{100 * x["answered"]:.0f} % | {x["precision"]:.2f} | {100 * x["failed"]:.0f} % |'
        )
    return '\n'.join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data', type=Path, nargs='?')
    parser.add_argument('--page', action='store_true', help='the table from the cells')
    parser.add_argument('--perfect', action='store_true', help='what size alone gives on CLAP')
    args = parser.parse_args()
    cells, page = HERE / 'cells/topk_probabilities.json', HERE / 'pages/topk_probabilities.md'
    if args.page:
        mark = r'(<!-- table -->\n\n).*?(\n\n<!-- /table -->)'
        made = table(json.loads(cells.read_text()))
        text = re.sub(mark, lambda m: m[1] + made + m[2], page.read_text(), flags=re.S)
        page.write_text(text)
        return
    if args.data is None:
        parser.error('name DATA')
    torch.set_num_threads(1)
    if args.perfect:
        of_perfect(args.data)
        return
    found = json.loads(cells.read_text()) if cells.exists() else []
    for row in rows(args.data, {(x['set'], x['way']) for x in found}):
        found.append(row)
        print(table([row]).splitlines()[-1], flush=True)
        cells.write_text(json.dumps(found, indent=1) + '\n')


if __name__ == '__main__':
    main()
