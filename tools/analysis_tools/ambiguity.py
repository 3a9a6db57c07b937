"""Report how similar, and how common, the pairs are that ARL calls ambiguous.

    python tools/analysis_tools/ambiguity.py CONFIG CHECKPOINT --out DIR

For a sample of training videos and all of their texts, in eval mode, it writes similarity s (Eq. 3)
and uncertainty u (Eq. 5) of annotated and of other pairs, as a table and a picture per branch with
the checkpoint's thresholds (ARL Fig. 4), and, for some texts, the ambiguous videos of the sample
(Fig. 5).  If the training set has ground truth, true but unannotated pairs are shown separately.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple, Optional

from mmvtr.cli.start import tool

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor, nn

from mmvtr.apis import PartOfSet, as_tested, encode_set, load_retriever
from mmvtr.cli import Parser, output_folder
from mmvtr.datasets import VideoTextDataset
from mmvtr.engine.loops.evaluation import to_device
from mmvtr.functional.similarities.best_frames import best_frames
from mmvtr.models.supervisions.arl import ARLSupervision, units_of
from mmvtr.models.target import Target
from mmvtr.registry import DATASETS
from mmvtr.storage import write_text
from mmvtr.structures import Levels
from mmvtr.utils import load_config


class Sample(NamedTuple):
    """A sample of videos of a dataset and all of their texts, encoded.

    Attributes:
        texts, videos: embeddings of the T texts and V videos, by level.
        positives: bool [T, V].
        truth: bool [T, V], or None if unknown.
        text_records, video_records: the dataset's records, in this order.
    """

    texts: Levels
    videos: Levels
    positives: Tensor
    truth: Optional[Tensor]
    text_records: list[dict[str, Any]]
    video_records: list[dict[str, Any]]


class Pairs(NamedTuple):
    """Similarity, uncertainty and ambiguous set of one branch for all pairs.

    Attributes:
        s, u: float [T, V].
        frame: int64 [T, V], the matched frame.
        frames: int64 [V], number of frames of a video.
        ambiguous: bool [T, V].
        tau_s, tau_u: the thresholds in the checkpoint.
    """

    s: Tensor
    u: Tensor
    frame: Tensor
    frames: Tensor
    ambiguous: Tensor
    tau_s: float
    tau_u: float


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config of a model with an ARLSupervision')
    add('checkpoint', help='checkpoint from after the warm-up')
    add(
        '--out',
        type=output_folder,
        metavar='DIR',
        required=True,
        help='folder to write, made if need be',
    )
    add('--videos', type=int, default=1000, help='drawn from the training set (default: 1000)')
    add('--texts', type=int, default=20, help='texts in ambiguous.json (default: 20)')
    add('--seed', type=int, default=0, help='seed of the draws (default: 0)')
    parser.add_cfg_options()
    return parser.parse_one_checkpoint()


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options)
    model, cfg = load_retriever(cfg, args.checkpoint)
    arl = supervision_of(model, args)
    sample = encode(model, cfg, args.videos, args.seed)
    branches = {level: pairs_of(arl, level, sample) for level in arl.levels}
    kinds = kinds_of(sample)
    args.out.mkdir(parents=True, exist_ok=True)
    for level, pairs in branches.items():
        print(f'branch {level!r}: tau_s {pairs.tau_s:.4f}{note(arl)}, tau_u {pairs.tau_u:.4f}')
        print(table(pairs, kinds) + '\n')
        draw(args.out / f'ambiguity_{level}.png', level, pairs, kinds, note(arl))
    chosen = examples(branches, sample, args.texts, args.seed)
    text = json.dumps(chosen, indent=1, ensure_ascii=False) + '\n'
    write_text(args.out / 'ambiguous.json', text)
    names = [f'ambiguity_{level}.png' for level in branches]
    print(f'{args.out}: {", ".join(names)}; ambiguous.json, {len(chosen)} texts')


def supervision_of(model: nn.Module, args: argparse.Namespace) -> ARLSupervision:
    """Return the model's ARL supervision.

    Raises:
        ValueError: it has none, or the checkpoint is from the warm-up, without thresholds.
    """
    arl = getattr(model, 'supervision', None)
    if not isinstance(arl, ARLSupervision):
        raise ValueError(f'{args.config}: model.supervision must be an ARLSupervision')
    if not arl.ready:
        raise ValueError(f'{args.checkpoint} was saved in the warm-up: it has no thresholds yet')
    return arl


@torch.no_grad()
def encode(model: nn.Module, cfg: Config, count: int, seed: int) -> Sample:
    """Draw videos of the training set and encode them with their texts, as in a test.

    Raises:
        ValueError: the count is below 1, or the set has no video with a text.
        BrokenVideoError: a video cannot be read.
    """
    loader = as_tested(cfg, 'train')
    loader.dataset.update(epoch_unit='video_with_all_texts', on_broken='raise')
    dataset: VideoTextDataset = DATASETS.build(loader.dataset)
    if count < 1 or not dataset.videos_with_text:
        raise ValueError(f'{count} videos are too few, or no training video has a text')
    drawn = np.random.default_rng(seed).permutation(dataset.videos_with_text)[:count]
    columns = sorted(drawn.tolist())
    rows = sorted({t for v in columns for t in dataset.texts_of[v]})
    chosen = PartOfSet(dataset, dict(text=rows, video=columns))
    sides = encode_set(model, dict(loader, dataset=chosen))
    device = torch.device(model.data_preprocessor.device)
    place = {v: column for column, v in enumerate(columns)}
    positives = torch.zeros(len(rows), len(columns), dtype=torch.bool)
    for row, t in enumerate(rows):
        positives[row, [place[v] for v in dataset.texts[t]['video_idx'] if v in place]] = True
    truth = dataset.truth()
    return Sample(
        to_device(sides['text'].levels, device),
        to_device(sides['video'].levels, device),
        positives,
        None if truth is None else torch.as_tensor(truth[np.ix_(rows, columns)]),
        [dataset.texts[t] for t in rows],
        [dataset.videos[v] for v in columns],
    )


@torch.no_grad()
def pairs_of(arl: ARLSupervision, level: str, sample: Sample) -> Pairs:
    """Return s, u and the ambiguous set of a branch, with the checkpoint's thresholds."""
    branch = arl.branches[level]
    texts, frames, mask = units_of(sample.texts[level], sample.videos[level])
    s, best = best_frames(texts, frames, mask)
    u = branch.uncertainty(texts, frames, mask, best)
    target = Target(sample.positives.to(s.device))
    sets = arl.pair_sets(level, texts, frames, mask, target)
    tau_s, tau_u = float(branch.tau_s), float(branch.tau_u)
    return Pairs(*(x.cpu() for x in (s, u, best, mask.sum(1), sets)), tau_s, tau_u)


def kinds_of(sample: Sample) -> dict[str, Tensor]:
    """Return kinds of pairs by name, bool [T, V]; true unannotated pairs are separate."""
    paired = sample.positives
    if sample.truth is None:
        return dict(paired=paired, unpaired=~paired)
    holds = sample.truth & ~paired
    return {'paired': paired, 'unpaired, true': holds, 'unpaired, false': ~paired & ~holds}


def note(arl: ARLSupervision) -> str:
    """Return a note about tau_s if ARL's rule is not 'mean'."""
    return '' if arl.rule == 'mean' else ' (the rule here is the own video of each text)'


def table(pairs: Pairs, kinds: dict[str, Tensor]) -> str:
    """Return a row per kind of pairs: count, mean and deviation of s and u, shares."""
    head = ('', 'pairs', 's', 'u', 's > tau_s', 'u > tau_u', 'ambiguous')
    rows = [head]
    for name, kind in kinds.items():
        s, u, ambiguous = pairs.s[kind], pairs.u[kind], pairs.ambiguous[kind]
        if not len(s):
            rows.append((name, '0', *[''] * 5))
            continue
        shares = (s > pairs.tau_s, u > pairs.tau_u, ambiguous)
        rows.append(
            (
                name,
                f'{len(s):,}',
                *(f'{x.mean():.3f} +- {x.std(correction=0):.3f}' for x in (s, u)),
                *(f'{100 * x.float().mean():.2f} %' for x in shares),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows)]
    return '\n'.join(
        '  '.join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


def draw(path: Path, level: str, pairs: Pairs, kinds: dict[str, Tensor], suffix: str) -> None:
    """Draw the distributions of s (a) and u (b), with the thresholds (Fig. 4)."""
    # Import here: not needed for a wrong command line.
    from drawings.spreads import Spread, distributions
    from mmvtr.visualization import save

    spreads = [
        Spread({name: values[kind].numpy() for name, kind in kinds.items()}, {tau: threshold}, x)
        for x, values, tau, threshold in (
            ('similarity s', pairs.s, f'tau_s{suffix}', pairs.tau_s),
            ('uncertainty u', pairs.u, 'tau_u', pairs.tau_u),
        )
    ]
    figure = distributions(spreads, title=f'Branch {level!r}', y='% of the pairs of a kind')
    save(figure, path)


def examples(
    branches: dict[str, Pairs], sample: Sample, count: int, seed: int
) -> list[dict[str, Any]]:
    """Return texts with an ambiguous video, drawn at random, with these videos (Fig. 5)."""
    ambiguous = torch.stack([pairs.ambiguous for pairs in branches.values()]).any(0)
    rows = ambiguous.any(1).nonzero().flatten().numpy()
    drawn = sorted(np.random.default_rng(seed).permutation(rows)[:count].tolist())
    return [
        dict(
            text_id=sample.text_records[t]['text_id'],
            text=sample.text_records[t]['text'],
            annotated=_videos(branches, sample, t, sample.positives[t]),
            ambiguous=_videos(branches, sample, t, ambiguous[t]),
        )
        for t in drawn
    ]


def _videos(
    branches: dict[str, Pairs], sample: Sample, t: int, chosen: Tensor
) -> list[dict[str, Any]]:
    """Return the branches' values for a text and some videos, the best first."""
    mean = torch.stack([pairs.s[t] for pairs in branches.values()]).mean(0)
    columns = sorted(chosen.nonzero().flatten().tolist(), key=lambda v: -float(mean[v]))
    return [_video(branches, sample, t, v) for v in columns]


def _video(branches: dict[str, Pairs], sample: Sample, t: int, v: int) -> dict[str, Any]:
    record = sample.video_records[v]
    fields: dict[str, Any] = dict(video_id=record['video_id'])
    if sample.truth is not None:
        fields['holds'] = bool(sample.truth[t, v])
    for level, pairs in branches.items():
        begin = int(pairs.frame[t, v]) / int(pairs.frames[v])
        end = begin + 1 / int(pairs.frames[v])
        length = record.get('duration')
        span = [begin, end] if length is None else [begin * length, end * length]
        fields[level] = {
            's': round(float(pairs.s[t, v]), 4),
            'u': round(float(pairs.u[t, v]), 4),
            'ambiguous': bool(pairs.ambiguous[t, v]),
            'share' if length is None else 'seconds': [round(x, 3) for x in span],
        }
    return fields


if __name__ == '__main__':
    main()
