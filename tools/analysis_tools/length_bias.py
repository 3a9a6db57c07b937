"""Compare the lengths of an action's videos between train and test set.

    python tools/analysis_tools/length_bias.py CONFIG --out DIR --action 0 54

Compares the train and the test set of a config action by action (verb class, noun class), from
their annotations only: a table and, with --out, the figures of Satar et al., "Towards Debiasing
Frame Length Bias in Text-Video Retrieval via Causal Intervention", Fig. 2, 6, 7 and 8.  With
--scores also LengthBiasMetric for a model.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple, Optional, Sequence

from mmvtr.cli.start import tool

import numpy as np
import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope

from mmvtr.cli import Parser, output_folder
from mmvtr.datasets.record_transforms import read_annotations
from mmvtr.datasets.sampling.splits import Action, class_means, class_members
from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.evaluation import LengthBiasMetric, evaluate, results_table
from mmvtr.evaluation.length_bias import ActionLengths, common_actions, known_lengths, video_actions
from mmvtr.storage import read_arrays
from mmvtr.structures import Relation
from mmvtr.utils import load_config
from score_files.reading import read_array

#: The paper's thresholds: differences above the first, or of at least the second (60 fps).
GAPS = dict(frames=(60.0, 200.0), seconds=(1.0, 200 / 60))


class Lengths(NamedTuple):
    """The lengths of a dataset's videos.

    Attributes:
        dataset: the set, its annotations only.
        videos: float64 [V], their lengths.
        actions: the actions of each video.
    """

    dataset: VideoTextDataset
    videos: np.ndarray
    actions: list[list[Action]]

    def of(self, action: Action) -> np.ndarray:
        """Return the lengths of an action's videos; may be empty."""
        return self.videos[class_members(self.actions).get(action, [])]


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='its train_dataloader.dataset and test_dataloader.dataset are compared')
    add('--out', type=output_folder, metavar='DIR', help='folder for the pictures, made if need be')
    add('--action', type=int, nargs=2, metavar=('VERB', 'NOUN'), help='look at one action closely')
    add(
        '--unit',
        choices=('frames', 'seconds'),
        help='native frames or seconds; default: frames where all videos of both sets have them',
    )
    add(
        '--equal-shares',
        action='store_true',
        help='a video of n actions is taken for n of equal length, as the paper does for YouCook2; '
        'default: it counts with its whole length for each',
    )
    add(
        '--scores',
        type=Path,
        metavar='FILE',
        help="a model's scores, texts x videos in the order of the test set: .npz with an array "
        "'scores', or .npy",
    )
    add('--top', type=int, default=20, help='top of LengthBiasMetric (default: 20)')
    add(
        '--gaps',
        type=float,
        nargs=2,
        metavar=('MANY', 'MOST'),
        help="differences of means to count: more than MANY (LengthBiasMetric's min_gap) and at "
        "least MOST; default: the paper's 60 and 200 frames, 1 and 3.33 s",
    )
    parser.add_cfg_options()
    return parser.parse_args()


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options)
    init_default_scope(cfg.get('default_scope', 'mmvtr'))
    train, test, unit = read_sets(cfg, args.unit, args.equal_shares)
    common = common_actions(*(class_means(x.videos, x.actions) for x in (train, test)))
    gaps = args.gaps or GAPS[unit]
    print(f'{args.config}: lengths in {unit}\n\n{table(train, test, common, gaps)}')
    if args.action:
        print('\n' + describe_action(tuple(args.action), train, test, unit))
    if args.scores:
        print('\n' + bias_of_scores(args.scores, train, test, top=args.top, min_gap=gaps[0]))
    if args.out:
        draw_all(args.out, train, test, common, unit, gaps, args.action)


def read_sets(cfg: Config, unit: Optional[str], equal_shares: bool) -> tuple[Lengths, Lengths, str]:
    """Return the lengths of both sets, and their unit."""
    datasets = []
    for name in ('train', 'test'):
        loader = cfg.get(f'{name}_dataloader')
        if not loader or not loader.get('dataset'):
            raise ValueError(f'{cfg.filename} has no {name}_dataloader.dataset')
        datasets.append(read_annotations(loader.dataset))
    if unit is None:
        units = {known_lengths(dataset)[1] for dataset in datasets}
        unit = 'frames' if units == {'frames'} else 'seconds'
    train, test = (_lengths(dataset, unit, equal_shares) for dataset in datasets)
    if not any(train.actions) or not any(test.actions):
        raise ValueError(f'{cfg.filename}: no video of a set has an action (verb and noun class)')
    return train, test, unit


def _lengths(dataset: VideoTextDataset, unit: str, equal_shares: bool) -> Lengths:
    lengths, actions = dataset.lengths(unit), video_actions(dataset)
    if equal_shares:
        lengths = lengths / np.maximum(1, [len(set(of_video)) for of_video in actions])
    return Lengths(dataset, lengths, actions)


def table(train: Lengths, test: Lengths, common: ActionLengths, thresholds: Sequence[float]) -> str:
    """Return statistics of the two sets side by side, then those of their common actions."""
    rows = [('', 'train', 'test')]
    for name, fact in (
        ('videos', lambda x: f'{len(x.videos):,}'),
        ('texts', lambda x: f'{len(x.dataset.texts):,}'),
        ('annotated pairs', lambda x: f'{sum(len(t["video_idx"]) for t in x.dataset.texts):,}'),
        ('mean length', lambda x: f'{np.mean(x.videos):,.2f}'),
        ('median length', lambda x: f'{np.median(x.videos):,.2f}'),
        ('actions', lambda x: f'{len(class_members(x.actions)):,}'),
    ):
        rows.append((name, fact(train), fact(test)))
    count, gaps = len(common.actions), np.abs(common.gaps)
    rows += [('', '', ''), ('actions of both sets', f'{count:,}', '')]
    many, most = thresholds
    for name, chosen in (
        (f'  mean lengths differ by more than {many:g}', gaps > many),
        (f'  mean lengths differ by at least {most:.4g}', gaps >= most),
        ('  longer in test than in train', common.gaps > 0),
    ):
        rows.append((name, f'{chosen.sum():,}', f'{100 * chosen.sum() / max(1, count):.1f} %'))
    if count:
        rows.append(('  mean and largest difference', f'{gaps.mean():,.1f}', f'{gaps.max():,.1f}'))
    width = max(len(name) for name, *_ in rows) + 1
    return '\n'.join(f'{name:{width}}{one:>12}{other:>12}'.rstrip() for name, one, other in rows)


def describe_action(action: Action, train: Lengths, test: Lengths, unit: str) -> str:
    """Return the number and mean length of an action's videos in each set."""
    parts = []
    for name, lengths in (('train', train.of(action)), ('test', test.of(action))):
        if not len(lengths):
            raise ValueError(f'action {action} (verb, noun) has no video in {name}')
        parts.append(f'{len(lengths):,} {name} videos of mean length {lengths.mean():,.2f}')
    return f'action {action}: {", ".join(parts)} {unit}'


def bias_of_scores(path: Path, train: Lengths, test: Lengths, *, top: int, min_gap: float) -> str:
    """Return LengthBiasMetric's table for saved scores."""
    metric = LengthBiasMetric(train=train.dataset, top=top, min_gap=min_gap)
    metric.train_means = class_means(train.videos, train.actions)
    dataset = test.dataset
    relevance = dataset.relevance()
    relation = Relation(
        torch.from_numpy(dataset.positives()),
        relevance=None if relevance is None else torch.as_tensor(relevance),
        text_ids=[text['text_id'] for text in dataset.texts],
        video_ids=[video['video_id'] for video in dataset.videos],
        video_lengths=torch.from_numpy(test.videos),
        text_actions=[tuple(map(tuple, text.get('actions', ()))) for text in dataset.texts],
        video_actions=test.actions,
    )
    scores = load_scores(path, relation.positives.shape)
    report = evaluate([metric], {'scores': scores}, relation)
    if not report.values['length_bias/t2v_judged']:
        return (
            f'{path}: no bias is measured: no text has an action whose mean lengths in train and '
            f'test differ by {min_gap:g} or more (--gaps)'
        )
    return results_table(report)


def load_scores(path: Path, shape: tuple[int, int]) -> torch.Tensor:
    """Return float [T, V] from a .npz or .npy file."""
    packed = path.suffix == '.npz'
    array = read_arrays(path, ['scores'])['scores'] if packed else read_array(path)
    if array.shape != tuple(shape) or array.dtype.kind not in 'fiu':
        raise ValueError(
            f'{path} holds {array.dtype} {list(array.shape)}, expected scores of the test set, '
            f'{list(shape)} (texts x videos)'
        )
    return torch.from_numpy(array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32))


def draw_all(
    folder: Path,
    train: Lengths,
    test: Lengths,
    common: ActionLengths,
    unit: str,
    thresholds: Sequence[float],
    action: Optional[Sequence[int]],
) -> None:
    """Write the figures and print their paths."""
    # Import here: only needed with figures.
    from drawings import spreads as drawing
    from mmvtr.visualization import canvas

    figures = dict(
        discrepancy=drawing.length_gaps(common.gaps, unit=unit, linear=thresholds[0]),
        mean_lengths=drawing.mean_lengths(common.train, common.test, unit=unit),
        absolute_discrepancy=drawing.absolute_gaps(common.gaps, thresholds, unit=unit),
    )
    if action:
        verb, noun = action
        sets = {name: x.of((verb, noun)) for name, x in (('train', train), ('test', test))}
        means = {f'{name}: mean {x.mean():,.1f}': x.mean() for name, x in sets.items()}
        figures[f'action_{verb}_{noun}'] = drawing.distributions(
            [drawing.Spread(sets, means, f'length ({unit})')],
            title=f'Action {(verb, noun)} (verb class, noun class)',
            y='% of the videos of a set',
            bins=30,
        )
    for name, figure in figures.items():
        canvas.save(figure, folder / f'{name}.png')
    print(f'\npictures in {folder}: ' + ', '.join(f'{name}.png' for name in figures))


if __name__ == '__main__':
    main()
