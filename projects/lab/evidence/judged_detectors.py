"""Detectors of right pairs that nobody annotated, measured on people.

    python projects/lab/evidence/judged_detectors.py DATA [--sets flickr8k cxc planted]

DATA has the folders flickr8k/, cxc/ and coco/ of pages/judgments.md, with ExpertAnnotations.txt
beside the crowd's.  AUC with a 95 % interval (texts are drawn), break-even, and precision at a
recall of one half.  Of Flickr8k pairs whose caption and image are both of the half for choosing,
and those of which both are of the other half; the experts' pairs and Crisscrossed Captions confirm.
The planted corpora (data/planted) are there to see that nothing is lost on them: train captions,
200,000 of all pairs that nobody annotated, known truth.  Minutes of CPU time.  Writes
judged_detectors.json and judged_detectors_tables.md; sets and detectors that are not asked for stay
as they are.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import torch
from judging.corpora import coco_captions, for_choosing
from judging.detectors import BASE, BOTH, DEFAULT, DETECTORS, Captions, Pairs
from study_parts.flickr8k import read_captions
from study_parts.image_judgments import read_crisscrossed, read_flickr8k_crowd, read_flickr8k_expert

from mmvtr.datasets import PlantedDataset
from mmvtr.datasets.annotation_files import read_ids
from mmvtr.evaluation.soft_positive import breakeven
from mmvtr.functional.metrics.relevance import auc
from mmvtr.storage import write_atomically

CELLS = Path(__file__).resolve().parent / 'cells'
JUDGED = 2
DRAWS = 200
PLANTED_PAIRS = 200_000
RECALL = 0.5
#: Where the interval of what a detector gains over the one before it stands.
GAINS = {DEFAULT: 'default minus before', BOTH: 'both minus default'}


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('data', type=Path, metavar='DATA', help='folder of the judged sets')
    add('--sets', nargs='+', choices=SETS, default=list(SETS))
    add('--methods', nargs='+', choices=DETECTORS, default=list(DETECTORS))
    add('--planted', default='data/planted', help='folder of the planted corpora')
    add('--out', type=Path, default=CELLS, help='folder to write')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    start, path = time.process_time(), args.out / 'judged_detectors.json'
    found = json.loads(path.read_text())['sets'] if path.exists() else {}
    for data in (data for kind in args.sets for data in SETS[kind](args)):
        scores: dict[str, dict[str, np.ndarray]] = {name: {} for name in data.pairs}
        for method in args.methods:
            score = DETECTORS[method](data)
            for name, pairs in data.pairs.items():
                scores[name][method] = score(pairs.texts, pairs.items)
            print(f'{", ".join(data.pairs)}: {method}', flush=True)
        for name, pairs in data.pairs.items():
            own = found.setdefault(name, dict(detectors={}))
            own.update(pairs=len(pairs.right), right=round(100 * float(pairs.right.mean()), 1))
            own['detectors'].update({k: numbers(x, pairs) for k, x in scores[name].items()})
            for ours, theirs in ((DEFAULT, BASE), (BOTH, DEFAULT)):
                if {ours, theirs} <= scores[name].keys():
                    gain = interval(scores[name][ours], pairs, scores[name][theirs])
                    own[GAINS[ours]] = gain
        print(f'{round(time.process_time() - start)} s of CPU time', flush=True)
    for name, text in (
        ('judged_detectors.json', json.dumps(dict(sets=found), indent=1) + '\n'),
        ('judged_detectors_tables.md', table(found)),
    ):
        write_atomically(args.out / name, lambda file, text=text: file.write(text.encode()))


def flickr8k(folder: Path) -> Captions:
    """Caption #2 of the 1,000 test images, for the items of the other four captions."""
    captions = {
        image: [text for _, text in own]
        for image, own in read_captions(folder / 'Flickr8k.token.txt').items()
    }
    images = sorted(read_ids(folder / 'Flickr_8k.testImages.txt'))
    known = {*images}
    lists = ('Flickr_8k.trainImages.txt', 'Flickr_8k.devImages.txt')
    others = [name for table in lists for name in read_ids(folder / table) if name not in known]
    chosen = for_choosing(len(images))
    place = {name: n for n, name in enumerate(images)}
    pairs = {}
    for who, judgments, least in (
        ('crowd', read_flickr8k_crowd(folder / 'CrowdFlowerAnnotations.txt'), 0.5 + 1e-6),
        ('experts', read_flickr8k_expert(folder / 'ExpertAnnotations.txt'), 3 - 1e-6),
    ):
        texts = np.array([place[name.removesuffix(f'#{JUDGED}')] for name in judgments.texts])
        items = np.array([place[name] for name in judgments.videos])
        right, own = np.asarray(judgments.values) >= least, texts == items
        for part, where in (
            ('for choosing', chosen[texts] & chosen[items]),
            ('other half', ~chosen[texts] & ~chosen[items]),
            ('all', np.ones(len(texts), dtype=bool)),
        ):
            keep = where & ~own
            pairs[f'Flickr8k {who}, {part}'] = Pairs(texts[keep], items[keep], right[keep])
    return Captions(
        [captions[name] for name in others],
        [[c for n, c in enumerate(captions[name]) if n != JUDGED] for name in images],
        [captions[name][JUDGED] for name in images],
        pairs,
    )


def crisscrossed(data: Path) -> Captions:
    """Captions of COCO's 5,000 test images for other ones of them, each with all of its own."""
    text, owner = coco_captions(data / 'coco')
    of_image: dict[str, list[str]] = defaultdict(list)
    for name, image in owner.items():
        if name in text:
            of_image[image].append(text[name])
    images = {image: n for n, image in enumerate(sorted(of_image))}
    rated = read_crisscrossed(data / 'cxc/sits_test.csv')
    rows = [(t, v, x) for t, v, x in zip(rated.texts, rated.videos, rated.values) if owner[t] != v]
    asks = {name: n for n, name in enumerate(sorted({t for t, _, _ in rows}))}
    pairs = Pairs(
        np.array([asks[t] for t, _, _ in rows]),
        np.array([images[v] for _, v, _ in rows]),
        np.array([x >= 3 for _, _, x in rows]),
    )
    return Captions(
        [], [of_image[image] for image in images], [text[name] for name in asks], dict(CxC=pairs)
    )


def planted(root: str, general: float) -> Captions:
    """The train captions of a planted corpus, each for the clips that it was not written for."""
    data = PlantedDataset([], [], split='train', data_root=root, general=general)
    texts, items = np.nonzero(~data.positives())
    drawn = np.random.default_rng(0).choice(len(texts), PLANTED_PAIRS, replace=False)
    texts, items = texts[drawn], items[drawn]
    pairs = Pairs(texts, items, data.truth()[texts, items])
    said = [[data.texts[t]['text'] for t in own] for own in data.texts_of]
    name = f'planted, {general:.0%} general'.replace('%', ' %')
    return Captions([], said, [text['text'] for text in data.texts], {name: pairs})


#: From the arguments to the sets, by kind.
SETS: dict[str, Callable[[argparse.Namespace], Iterator[Captions]]] = dict(
    flickr8k=lambda args: iter([flickr8k(args.data / 'flickr8k')]),
    cxc=lambda args: iter([crisscrossed(args.data)]),
    planted=lambda args: (planted(args.planted, share) for share in (0.6, 0.3)),
)


def numbers(scores: np.ndarray, pairs: Pairs) -> dict[str, Any]:
    """In percent."""
    right, wrong = (torch.from_numpy(scores[x]) for x in (pairs.right, ~pairs.right))
    return dict(
        AUC=round(100 * float(auc(right, wrong)), 1),
        interval=interval(scores, pairs)[1:],
        breakeven=round(100 * breakeven(right, wrong), 1),
        precision=round(100 * precision_at(scores, pairs.right), 1),
    )


def precision_at(scores: np.ndarray, right: np.ndarray, recall: float = RECALL) -> float:
    """Share of right ones among the fewest best-scored pairs that hold ``recall`` of them.

    Pairs of one score are taken together.
    """
    order = np.argsort(-scores, kind='stable')
    found = np.cumsum(right[order])
    last = int(np.searchsorted(found, math.ceil(recall * right.sum())))
    taken = scores >= scores[order[last]]
    return float(right[taken].mean())


def interval(scores: np.ndarray, pairs: Pairs, base: np.ndarray | None = None) -> list[float]:
    """AUC in percent, minus that of ``base``, and its 95 % interval; a text's pairs go together.

    Draws of which all pairs are right, or none, say nothing and are left out.
    """
    draw, count = np.random.default_rng(0), int(pairs.texts.max()) + 1
    gains = [_auc(scores, pairs.right) - (0.0 if base is None else _auc(base, pairs.right))]
    for _ in range(DRAWS):
        times = draw.multinomial(count, np.full(count, 1 / count))
        where = np.repeat(np.arange(len(scores)), times[pairs.texts])
        right = pairs.right[where]
        if 0 < right.sum() < len(right):
            other = 0.0 if base is None else _auc(base[where], right)
            gains.append(_auc(scores[where], right) - other)
    ends = np.quantile(gains[1:], (0.025, 0.975))
    return [round(float(x), 1) for x in (gains[0], *ends)]


def _auc(scores: np.ndarray, right: np.ndarray) -> float:
    """In percent."""
    return 100 * float(auc(torch.from_numpy(scores[right]), torch.from_numpy(scores[~right])))


def table(sets: dict[str, Any]) -> str:
    """Markdown."""
    lines = ['AUC [95 % interval], break-even, precision at a recall of one half; percent.', '']
    heads = [f'{name} ({x["pairs"]:,} pairs, {x["right"]} % right)' for name, x in sets.items()]
    lines += [f'| detector | {" | ".join(heads)} |', '|---' * (len(sets) + 1) + '|']
    for method in DETECTORS:
        cells = []
        for x in (one['detectors'].get(method) for one in sets.values()):
            low, high = x['interval'] if x else (0, 0)
            cells.append(
                f'{x["AUC"]} [{low}, {high}], {x["breakeven"]}, {x["precision"]}' if x else ''
            )
        lines.append(f'| {method} | {" | ".join(cells)} |')
    return '\n'.join(lines) + '\n'


if __name__ == '__main__':
    main()
