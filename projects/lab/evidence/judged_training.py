"""Trainings on Flickr8k's captions, judged by people: methods x batch sizes x seeds.

    python projects/lab/evidence/judged_training.py DATA [--seeds 0 1 2] [--batches 128]
        [--times 5]

DATA is the folder of Flickr8k (pages/judged_training.md).  One training at a time, each about a
minute; what is done is not done again, so a killed benchmark goes on, and more seeds, batch sizes,
methods and lengths are added by calling it with more.  The epoch is chosen on dev.  Seeds 0 to 2
were looked at; seeds 3 to 7 confirm what was found there, and are never mixed with those.  Writes
judged_training.json, judged_training_tables.md and judged_training.png, of all runs that are there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import os
import runpy
import sys
from pathlib import Path
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

import numpy as np
import torch
from judging import permuted  # noqa: F401  registers the control
from judging.corpora import Matrices, for_choosing
from judging.measures import DIRECTIONS, known, measure
from judging.trained import picture, tables
from study_parts.flickr8k import Flickr8kCaptionsDataset
from study_parts.image_judgments import read_flickr8k_crowd

import mmvtr.engine  # noqa: F401  imported once, before the trainings part from this process
from mmvtr.engine.loop.checkpoint import read_checkpoint
from mmvtr.engine.loop.earlier_runs import best_in
from mmvtr.engine.loop.facts import choice_of
from mmvtr.evaluation.paired import bootstrap
from mmvtr.functional.metrics.relevance import auc
from mmvtr.storage import write_atomically

ROOT = Path(__file__).resolve().parents[3]
CELLS = Path(__file__).resolve().parent / 'cells'
WORDS = Path('data/flickr8k_words')
AT_LEAST = 0.5 + 1e-6  # more than half of the people say yes
KEYS = ('R1', 'P1', 'AP')
#: Looked at while methods and settings were tried, and not looked at before these rows were fixed.
FIRST, CONFIRMING = range(3), range(3, 8)
TEXTS = 12_000  # of the train set


class Method(NamedTuple):
    """A config, what is changed of it, and the transformed scores that it is tested with."""

    config: str
    options: tuple[str, ...] = ()
    scores: str = ''


PERMUTED = 'train_dataloader.dataset.records.agreement.type=PermutedAgreement'
METHODS = {
    'InfoNCE': Method('infonce_captions_flickr8k'),
    'agreement, both directions': Method('agreement_captions_flickr8k_both'),
    'agreement, permuted (control)': Method('agreement_captions_flickr8k_both', (PERMUTED,)),
    'agreement, both, set by people': Method(
        'agreement_captions_flickr8k_both',
        ('model.supervision.agreement=0.1', 'model.supervision.slack=-0.2'),
    ),
    'agreement, v2t': Method('agreement_captions_flickr8k'),
    'implied texts': Method('implication_captions_flickr8k'),
    'relative scores, v2t': Method('relative_captions_flickr8k'),
    'DVTR, floor .4': Method('dvtr_captions_flickr8k'),
    'DVTR, no floor, mean as reference': Method(
        'dvtr_captions_flickr8k',
        ('model.supervision.floor=0.0', 'model.supervision.reference=mean'),
    ),
    'UATVR heads': Method('uatvr_captions_flickr8k'),
    'NCL, tested raw': Method('ncl_captions_flickr8k'),
    'NCL, with its queue': Method('ncl_captions_flickr8k', (), 'sinkhorn'),
}
BASE = 'InfoNCE'
#: Its settings were chosen on half of the judged images (judged_weights.py): the other half judges.
SET_BY_PEOPLE = 'agreement, both, set by people'


class Size(NamedTuple):
    """How a batch size is trained: epochs, and learning rate."""

    epochs: int
    rate: float


SIZES = {
    64: Size(6, 7e-4),
    128: Size(6, 1e-3),
    256: Size(8, 1.5e-3),
    1024: Size(10, 5e-3),
    4096: Size(30, 8e-3),
}
#: Times as many epochs as above; 5 times at 1,024 are about the steps of 128.
TIMES = (1, 2, 5)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('data', type=Path, metavar='DATA', help='folder of Flickr8k')
    add('--seeds', type=int, nargs='+', choices=[*FIRST, *CONFIRMING], default=[*FIRST])
    add('--batches', type=int, nargs='+', choices=SIZES, default=[128, 1024])
    add('--methods', nargs='+', choices=METHODS, default=list(METHODS))
    add('--times', type=int, choices=TIMES, default=1, help='so many times the epochs')
    add('--runs', type=Path, default=Path('work_dirs/benchmark/judged_training'))
    add('--out', type=Path, default=CELLS, help='folder to write')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)
    for seed in args.seeds:
        for batch in args.batches:
            for name in args.methods:
                method = METHODS[name]
                folder = args.runs / folder_of(method, batch, seed, args.times)
                if not (folder / 'done').exists():
                    train(folder, args.data, method, batch, seed, args.times)
                    print(f'{name}, batch {batch}, seed {seed}', flush=True)
    test = test_set(args.data)
    content = evaluate(args.runs, test, other_half(args.data))
    for name, text in (
        ('judged_training.json', json.dumps(content, indent=1) + '\n'),
        ('judged_training_tables.md', tables(content)),
    ):
        write_atomically(args.out / name, lambda file, text=text: file.write(text.encode()))
    picture(args.out / 'judged_training.png', content)


def folder_of(method: Method, batch: int, seed: int, times: int = 1) -> str:
    """Methods that differ in the scores they are tested with share a training."""
    changes = ''.join('_' + option.partition('=')[2].lower() for option in method.options)
    longer = f'_x{times}' if times > 1 else ''
    return f'{method.config}{changes}_{batch}{longer}_{seed}'


def train(folder: Path, data: Path, method: Method, batch: int, seed: int, times: int) -> None:
    """One training by tools/train.py, in a process that has all modules already."""
    size = SIZES[batch]
    folder.mkdir(parents=True, exist_ok=True)
    sets = [f'{kind}_dataloader.dataset' for kind in ('train', 'val', 'test')]
    options = [
        *(f'{one}.ann_root={data}' for one in sets),
        f'test_dataloader.dataset.judgments.path={data}/CrowdFlowerAnnotations.txt',
        f'train_dataloader.batch_size={batch}',
        f'optim_wrapper.optimizer.lr={size.rate}',
        f'train_cfg.max_epochs={times * size.epochs}',
        f'train_cfg.val_interval={max(1, size.epochs // 2)}',
        *method.options,
    ]
    config = ROOT / 'configs' / f'{method.config}.py'
    argv = ['tools/train.py', str(config), '--work-dir', str(folder), '--seed', str(seed)]
    child = multiprocessing.get_context('fork').Process(
        target=_child, args=([*argv, '--resume', '--cfg-options', *options], folder / 'log.txt')
    )
    child.start()
    child.join()
    if child.exitcode:
        log = (folder / 'log.txt').read_text(errors='replace')
        raise SystemExit(f'{folder}: the training failed\n{log[-3000:]}')
    (folder / 'done').touch()


def _child(argv: Sequence[str], log: Path) -> None:
    with open(log, 'w') as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = [*argv]
    runpy.run_path(str(ROOT / argv[0]), run_name='__main__')


def other_half(data: Path) -> np.ndarray:
    """Bool [N], which images are not of the half for choosing, in the order of the score files."""
    images = [video['video_id'] for video in _test_images(data).videos]
    chosen = for_choosing(len(images))[np.argsort(np.argsort(images))]
    return ~chosen


def _test_images(data: Path) -> Flickr8kCaptionsDataset:
    return Flickr8kCaptionsDataset('test', ann_root=str(data), video_pipeline=[], text_pipeline=[])


def test_set(data: Path) -> Matrices:
    """The judged pairs in the order of the score files; it has no scores itself."""
    test = _test_images(data)
    crowd = read_flickr8k_crowd(data / 'CrowdFlowerAnnotations.txt')
    texts, videos = (
        [x[key] for x in some] for some, key in ((test.texts, 'text_id'), (test.videos, 'video_id'))
    )
    none = torch.empty(0)
    return Matrices(none, none, none, torch.from_numpy(crowd.matrix(texts, videos)), AT_LEAST)


def values_of(folder: Path, scores: str, test: Matrices) -> dict[str, np.ndarray]:
    """Of each query, by direction and measure; and the AUC of the scores, one number."""
    if scores:
        with np.load(folder / f'scores_test_{scores}.npz') as both:
            t2v, v2t = (torch.from_numpy(both[d]) for d in DIRECTIONS)
    else:
        t2v = v2t = torch.from_numpy(np.load(folder / 'scores_test.npy'))
    found = {}
    for direction, rows in zip(DIRECTIONS, (t2v, v2t.t().contiguous())):
        for key, x in measure(rows, known(test, direction))._asdict().items():
            found[f'{direction}_{key}'] = x.numpy()
    others = ~torch.eye(len(t2v), dtype=torch.bool)
    right, wrong = (test.grades >= AT_LEAST) & others, (test.grades < AT_LEAST) & others
    found['AUC'] = np.array([100 * float(auc(t2v[right], t2v[wrong]))])
    return found


def evaluate(runs: Path, test: Matrices, other: np.ndarray) -> dict[str, Any]:
    """All runs that are done, those of the confirming seeds apart.

    Args:
        other: bool [N], the images that settings which people have chosen are judged on.
    """
    return dict(
        measures=dict(R1='paired R@1', P1='judged P@1', AP='AP of EXTRA'),
        methods=[*METHODS],
        rows=rows_of(runs, test, other, FIRST),
        confirmation=rows_of(runs, test, other, CONFIRMING),
    )


def rows_of(
    runs: Path, test: Matrices, other: np.ndarray, seeds: Iterable[int]
) -> list[dict[str, Any]]:
    """Levels, and differences to InfoNCE of the same batch, length and seeds."""
    rows: list[dict[str, Any]] = []
    for batch, times in itertools.product(SIZES, TIMES):
        epochs = times * SIZES[batch].epochs
        of: dict[str, dict[int, dict[str, np.ndarray]]] = {}
        best: dict[str, list[int]] = {}
        for (name, method), seed in itertools.product(METHODS.items(), seeds):
            folder = runs / folder_of(method, batch, seed, times)
            if (folder / 'done').exists():
                of.setdefault(name, {})[seed] = values_of(folder, method.scores, test)
                best.setdefault(name, []).append(_best_epoch(folder))
        for name, values in of.items():
            row = dict(
                method=name,
                batch=batch,
                epochs=epochs,
                steps=epochs * math.ceil(TEXTS / batch),
                rate=SIZES[batch].rate,
                seeds=[*values],
                best_epochs=best[name],
                level=levels_of(values),
            )
            if name != BASE and values.keys() & of.get(BASE, {}).keys():
                judges = other if name == SET_BY_PEOPLE else np.ones_like(other)
                row['minus_infonce'] = differences(values, of[BASE], judges)
            rows.append(row)
    return rows


def _best_epoch(folder: Path) -> int:
    (best,) = best_in(folder)
    return choice_of(read_checkpoint(best)).epoch


def levels_of(seeds: Mapping[int, Mapping[str, np.ndarray]]) -> dict[str, list[float]]:
    """Mean over the seeds and their standard deviation."""
    found = {}
    for key in next(iter(seeds.values())):
        means = [float(np.nanmean(values[key])) for values in seeds.values()]
        deviation = float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
        found[key] = [round(float(np.mean(means)), 2), round(deviation, 2)]
    return found


def differences(
    ours: Mapping[int, Mapping[str, np.ndarray]],
    theirs: Mapping[int, Mapping[str, np.ndarray]],
    judges: np.ndarray,
) -> dict[str, list[float]]:
    """Mean and 95 % interval over common seeds and images, whose two queries are drawn together.

    Args:
        ours, theirs: values float [N] by measure, by seed.
        judges: bool [N], the images that count.
    """
    common = sorted(ours.keys() & theirs.keys())
    found = {}
    for column, directions in dict(t2v=('t2v',), v2t=('v2t',), both=DIRECTIONS).items():
        for key in KEYS:
            names = [f'{direction}_{key}' for direction in directions]
            gains = np.stack(
                [
                    np.concatenate([(ours[s][k] - theirs[s][k])[judges] for k in names])
                    for s in common
                ]
            )
            has = ~np.isnan(gains[0])
            images = np.tile(np.flatnonzero(judges), len(directions))
            ends = bootstrap([gains[:, has]], [images[has]])
            numbers = (gains[:, has].mean(), *ends)
            found[f'{column}_{key}'] = [round(float(x), 2) for x in numbers]
    return found


if __name__ == '__main__':
    main()
