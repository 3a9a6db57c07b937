"""Measure how well a supervision detects true pairs that are not annotated.

    python tools/analysis_tools/soft_positives.py CONFIG CHECKPOINT [--out numbers.json]

Runs one epoch of the training set in the training's batches, as a supervision uses the annotations.
Its weights (0 for a pair that it takes for a further match, or for ambiguous) are compared with the
ground truth, and so are the cosines of the same pairs.  Only a PlantedDataset has ground truth.
"""

from __future__ import annotations

import argparse
from typing import Any, Iterable

from mmvtr.cli.start import tool

import torch
from mmengine.config import Config
from mmengine.fileio import dump
from mmengine.runner import Runner
from torch import Tensor, nn

from mmvtr.apis import load_retriever
from mmvtr.cli import Parser, output_file
from mmvtr.datasets import PlantedDataset
from mmvtr.evaluation import SoftPositiveMetric, evaluate, results_table
from mmvtr.models.annotation import JointIds
from mmvtr.models.target import Target, judges, pushed
from mmvtr.registry import DATASETS
from mmvtr.structures import Relation
from mmvtr.utils import load_config


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    parser.add_argument('config', help='config of a model with a supervision, on a PlantedDataset')
    parser.add_argument('checkpoint', help='weights of the whole model')
    parser.add_argument(
        '--out', type=output_file, metavar='FILE', help='write the numbers to this .json file, too'
    )
    parser.add_cfg_options()
    return parser.parse_one_checkpoint()


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options)
    model, cfg = load_retriever(cfg, args.checkpoint)
    loader = training_batches(cfg)
    if model.supervision is None:
        raise ValueError(f'{args.config} has no model.supervision')
    judged = judge(model, loader)
    numbers = {}
    for name, (matrices, relation) in judged.items():
        pairs = int((~relation.positives).sum())
        print(f'{name}: {pairs:,} pairs that nobody annotated, of one epoch of the training set')
        metric = SoftPositiveMetric(reads=('eta', 'scores'))
        report = evaluate([metric], matrices, relation)
        print(results_table(report) + '\n')
        numbers[name] = report.values
    if args.out:
        dump(numbers, args.out)


def training_batches(cfg: Config) -> Iterable[dict[str, Any]]:
    """Return the training's dataloader, with ground truth in its batches.

    Raises:
        ValueError: the training set is no PlantedDataset.
    """
    dataset = (cfg.get('train_dataloader') or {}).get('dataset') or {}
    kind = DATASETS.get(dataset['type']) if 'type' in dataset else None
    if kind is None or not issubclass(kind, PlantedDataset):
        raise ValueError(
            f'{cfg.filename}: train_dataloader.dataset must be a PlantedDataset, no other knows '
            f'the truth; it is {dataset.get("type")}'
        )
    dataset.oracle = True
    seed = cfg.get('randomness', {}).get('seed') or 0
    return Runner.build_dataloader(cfg.train_dataloader, seed=seed)


@torch.no_grad()
def judge(
    model: nn.Module, batches: Iterable[dict[str, Any]]
) -> dict[str, tuple[dict[str, Tensor], Relation]]:
    """Return all pairs of all batches as one row, for each target that the supervision makes.

    Args:
        model: a retriever in eval mode; the supervision acts as at the end of the training.
        batches: batches of the training set, with ground truth.

    Returns:
        ``'supervision'``, or the names of its targets (ARL's branches) -> ``eta`` and ``scores``,
        float [1, N], and the relation of the N pairs.  Targets that never exclude negatives (ARL's
        ``'scores'``) are left out.

    Raises:
        ValueError: the supervision has no weights: it only sets margins, or has not started.
    """
    model.supervision.progress = 1.0
    rows: dict[str, list[tuple[Tensor, ...]]] = {}
    judging: set[str] = set()
    for batch in batches:
        batch = model.data_preprocessor(batch, False)
        texts, videos = model(**batch, mode='tensor')
        scores = model.similarity(texts, videos)['scores']
        block = JointIds(batch['data_samples'], scores.device).target()
        targets, _ = model.supervision(texts, videos, block)
        if isinstance(targets, Target):
            targets = {'supervision': targets}
        for name, target in targets.items():
            if judges(target, block):
                judging.add(name)
            parts = (pushed(target, block), scores, block.positives, block.known.truth)
            rows.setdefault(name, []).append(tuple(part.flatten().cpu() for part in parts))
    if not judging:
        raise ValueError(
            f'{type(model.supervision).__name__} gives no weights, no further matches and no '
            'ambiguous pairs: it only sets margins, or the checkpoint is from before it begins'
        )
    judged = {}
    for name in sorted(judging):
        eta, scores, positives, truth = (torch.cat(part)[None] for part in zip(*rows[name]))
        judged[name] = (dict(eta=eta, scores=scores), Relation(positives, truth=truth))
    return judged


if __name__ == '__main__':
    main()
