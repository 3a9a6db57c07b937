"""Test-time transforms judged by people: paired recall against right items that nobody annotated.

    python projects/lab/evidence/judgments.py DATA [--kinds tfidf agreement] [--out FOLDER]

DATA has the folders flickr8k/, cxc/ and coco/ (see pages/judgments.md for their files).  No model
is trained and no pixel read: a caption is scored for an item by the item's other captions.

1. Each transform over its settings on Flickr8k, with the test queries as bank and with train ones.
2. The setting of each is chosen on one half of Flickr8k's images: the highest paired R@1 that costs
   at most half a point of the AP of EXTRA; both are means over the two directions.
3. The choices are confirmed on the other half, and on Crisscrossed Captions.

Minutes on two cores.  Writes judgments.json, judgments_tables.md and a picture a kind.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

import numpy as np
import torch
from judging.corpora import Matrices, crisscrossed, flickr8k, for_choosing
from judging.measures import DIRECTIONS, Values, known, measure
from judging.picture import draw
from judging.tables import tables
from judging.transforms import Setting, score_gap, settings
from judging.words import KINDS

from mmvtr.evaluation.paired import bootstrap
from mmvtr.storage import write_atomically

CELLS = Path(__file__).resolve().parent / 'cells'
SOURCES = ('test', 'bank')
#: The most AP of EXTRA, in points, that a chosen setting may cost.
COST = 0.5
#: Directions whose queries are taken together.
COLUMNS = dict(t2v=('t2v',), v2t=('v2t',), both=DIRECTIONS)

#: Values by direction.
Both = Mapping[str, Values]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('data', type=Path, metavar='DATA', help='folder of the judged sets')
    add('--kinds', nargs='+', choices=KINDS, default=list(KINDS), help='of scores (default: all)')
    add('--out', type=Path, default=CELLS, help='folder to write')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    start, results = time.process_time(), {}
    for kind in args.kinds:
        results[kind] = run(args.data, kind)
        draw(args.out / f'judgments_{kind}.png', results[kind]['fronts'])
    seconds = time.process_time() - start
    content = dict(cpu_seconds=round(seconds), kinds=results)
    for name, text in (
        ('judgments.json', json.dumps(content, indent=1) + '\n'),
        ('judgments_tables.md', tables(results)),
    ):
        write_atomically(args.out / name, lambda file, text=text: file.write(text.encode()))
    print(f'{args.out}/judgments.json: {seconds / 60:.0f} minutes of CPU time')


def run(data: Path, kind: str) -> dict[str, Any]:
    """All figures of a kind of scores."""
    flickr = flickr8k(data / 'flickr8k', kind)
    chosen_on = for_choosing(len(flickr.scores))
    points: dict[str, dict[Setting, Both]] = {source: {} for source in SOURCES}
    for setting in settings():
        for source in SOURCES:
            points[source][setting] = values_of([flickr], source, setting)
        print(f'{kind} flickr8k {setting.transform} {setting}', flush=True)
    raw = Setting('raw')
    found: dict[str, Any] = dict(
        score_gap=round(score_gap(flickr.scores), 4), unseen=unseen(flickr.scores)
    )
    found['raw'] = {
        name: levels(points['test'][raw], where)
        for name, where in (('all', all_of(flickr)), ('chosen', chosen_on), ('other', ~chosen_on))
    }
    found['fronts'] = {
        source: {
            name: [about(s, points[source][s], points[source][raw], where) for s in points[source]]
            for name, where in (('chosen', chosen_on), ('other', ~chosen_on))
        }
        for source in SOURCES
    }
    found['all'] = {
        source: [
            about(s, x, points[source][raw], all_of(flickr)) for s, x in points[source].items()
        ]
        for source in SOURCES
    }
    choices = {s: choose(points[s], chosen_on) for s in SOURCES}
    found['flickr8k'] = confirm(choices, points, ~chosen_on)
    found['beside'] = beside(points, choices['test']['unbalanced_sinkhorn'], ~chosen_on)
    cxc = [*crisscrossed(data / 'cxc', data / 'coco', KINDS[kind])]
    there: dict[str, dict[Setting, Both]] = {source: {} for source in SOURCES}
    for source in SOURCES:
        for setting in (raw, *choices[source].values()):
            there[source][setting] = values_of(cxc, source, setting)
            print(f'{kind} crisscrossed {source} {setting.transform} {setting}', flush=True)
    everything = np.ones(sum(len(x.scores) for x in cxc), dtype=bool)
    found['raw']['crisscrossed'] = levels(there['test'][raw], everything)
    found['crisscrossed'] = confirm(choices, there, everything)
    return found


def unseen(scores: torch.Tensor) -> dict[str, float]:
    """Share of items, in percent, that no query has among its ten best: what hubs leave of them."""
    found = {}
    for direction, rows in zip(DIRECTIONS, (scores, scores.t())):
        count = torch.bincount(rows.topk(10, dim=1).indices.flatten(), minlength=rows.shape[1])
        found[direction] = round(100 * (count == 0).double().mean().item(), 1)
    return found


def all_of(matrices: Matrices) -> np.ndarray:
    return np.ones(len(matrices.scores), dtype=bool)


def values_of(parts: Iterable[Matrices], source: str, setting: Setting) -> dict[str, Values]:
    """Of the queries of all parts, by direction."""
    found: dict[str, list[Values]] = {direction: [] for direction in DIRECTIONS}
    for part in parts:
        for direction in DIRECTIONS:
            t2v = direction == 't2v'
            scores = part.scores if t2v else part.scores.t().contiguous()
            bank = scores
            if source == 'bank':
                bank = part.bank_t2v if t2v else part.bank_v2t.t().contiguous()
            values = measure(setting.apply(scores, bank), known(part, direction))
            found[direction].append(values)
    return {name: Values(*map(torch.cat, zip(*some))) for name, some in found.items()}


def levels(both: Both, where: np.ndarray) -> dict[str, dict[str, float]]:
    """Means over some queries."""
    return {
        direction: {
            key: round(float(np.nanmean(x.numpy()[where])), 2)
            for key, x in values._asdict().items()
        }
        for direction, values in both.items()
    }


def about(setting: Setting, own: Both, base: Both, where: np.ndarray) -> dict[str, Any]:
    """A setting, and its differences to raw scores: mean and standard error."""
    found: dict[str, Any] = dict(setting._asdict(), name=str(setting))
    for direction in DIRECTIONS:
        for key in Values._fields:
            gain = (getattr(own[direction], key) - getattr(base[direction], key)).numpy()[where]
            gain = gain[~np.isnan(gain)]
            error = gain.std(ddof=1) / len(gain) ** 0.5
            found[f'{direction}_{key}'] = [round(float(gain.mean()), 2), round(float(error), 2)]
    return found


def choose(points: Mapping[Setting, Both], where: np.ndarray) -> dict[str, Setting]:
    """The setting of each transform: the most paired R@1 that costs no more than :data:`COST`.

    Where all settings of a transform cost more it is the one that costs least.
    """
    base = points[Setting('raw')]
    gains = {}
    for setting, both in points.items():
        found = about(setting, both, base, where)
        gains[setting] = [
            sum(found[f'{d}_{key}'][0] for d in DIRECTIONS) / 2 for key in ('R1', 'AP')
        ]
    chosen: dict[str, Setting] = {}
    for name in dict.fromkeys(s.transform for s in points if s.transform != 'raw'):
        own = [s for s in points if s.transform == name]
        cheap = [s for s in own if gains[s][1] >= -COST]
        chosen[name] = (
            max(cheap, key=lambda s: gains[s][0]) if cheap else max(own, key=lambda s: gains[s][1])
        )
    return chosen


def confirm(
    choices: Mapping[str, Mapping[str, Setting]],
    points: Mapping[str, Mapping[Setting, Both]],
    where: np.ndarray,
) -> dict[str, Any]:
    """The chosen settings against raw scores and against CSLS, with intervals."""
    found: dict[str, Any] = {}
    for source, chosen in choices.items():
        values = points[source]
        against = dict(raw=values[Setting('raw')], csls=values[chosen['csls']])
        found[source] = {}
        for name, setting in chosen.items():
            row: dict[str, Any] = dict(setting._asdict(), name=str(setting))
            for other, base in against.items():
                row[other] = {
                    f'{name}_{key}': interval(values[setting], base, directions, key, where)
                    for name, directions in COLUMNS.items()
                    for key in Values._fields
                }
            found[source][name] = row
    return found


def beside(
    points: Mapping[str, Mapping[Setting, Both]], ours: Setting, where: np.ndarray
) -> dict[str, Any]:
    """Ours against the CSLS that gains as much R@1, and ours from a bank against raw scores."""
    pairs = {
        'test queries, against csls k 3': ('test', Setting('csls', 0, 3)),
        'bank, with the setting of the test queries, against raw': ('bank', Setting('raw')),
    }
    return {
        name: {
            f'{column}_{key}': interval(
                points[source][ours], points[source][base], directions, key, where
            )
            for column, directions in COLUMNS.items()
            for key in Values._fields
        }
        for name, (source, base) in pairs.items()
    }


def interval(
    ours: Both, theirs: Both, directions: Sequence[str], key: str, where: np.ndarray
) -> list[float]:
    """Difference and its 95 % interval; the two queries of an image are drawn together."""
    sides = (
        np.concatenate([getattr(both[d], key).numpy()[where] for d in directions])
        for both in (ours, theirs)
    )
    gains = np.subtract(*sides)
    has = ~np.isnan(gains)
    images = np.tile(np.arange(int(where.sum())), len(directions))
    ends = bootstrap([gains[has][None]], [images[has]])
    return [round(float(x), 2) for x in (gains[has].mean(), *ends)]


if __name__ == '__main__':
    main()
