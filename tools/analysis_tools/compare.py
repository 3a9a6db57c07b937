"""Compare systems by significance tests, given their scores for the same queries.

    python tools/analysis_tools/compare.py BASELINE.npy A.npz B.run --positives QRELS \\
        --judgments JUDGED.qrels --out FILE.json --plot FILE.png

Each system is compared with the first one, query by query, in every metric: the difference with the
95 % interval of a paired bootstrap, the p of a permutation test, and Holm's correction of p for all
metrics and systems together.  Texts of one video are not independent: they are resampled, and their
signs flipped, together, unless --by query.  Files are .npy [texts, videos], .npz (scores, or t2v
and v2t, with text_ids and video_ids or without), or TREC runs; needs scipy.

Files that ScoresFileHook wrote record their test set and their training: different test sets are
refused, and differences of the trainings are printed above the table.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Mapping, Sequence

from mmvtr.cli.start import tool

import numpy as np
import torch
from torch import Tensor

from mmvtr.cli import Parser, output_file
from mmvtr.evaluation import JudgedMetric, RetrievalMetric
from mmvtr.evaluation.differences import (
    RESOLVED,
    Difference,
    Measured,
    as_dict,
    corrected,
    difference,
    differences_csv,
)
from mmvtr.evaluation.queries import QueryValues, groups
from mmvtr.evaluation.results import read_about, refuse_other_test
from mmvtr.storage import write_text
from mmvtr.structures import Directed, Relation
from score_files.reading import (
    Ids,
    ScoreFile,
    add_truth,
    positives_of,
    read_judgments,
    read_matches,
    read_score_file,
)

RECALLS = (1, 5, 10)


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('files', nargs='+', type=Path, metavar='FILE', help='score files, the baseline first')
    add_truth(
        parser,
        'who matches, as for eval_scores.py: .npy, or TREC qrels, which runs need; default for '
        'square matrices: the diagonal',
    )
    add(
        '--metrics', nargs='+', metavar='KEY', help='only these, such as t2v_R1 judged_t2v_extra_AP'
    )
    add(
        '--by',
        choices=('video', 'query'),
        default='video',
        help='what is drawn: videos with all of their texts (default), or queries alone',
    )
    add(
        '--level',
        type=float,
        default=0.05,
        metavar='P',
        help='a corrected p below it resolves a difference (default: 0.05)',
    )
    add(
        '--out',
        type=output_file,
        metavar='FILE',
        help='write all numbers to this .json or .csv file',
    )
    add(
        '--plot',
        type=output_file,
        metavar='FILE.png',
        help='draw differences, and queries gained and lost',
    )
    return parser.parse_args()


@tool
def main() -> None:
    args = parse_args()
    check_options(args)
    heading = beside(args.files)
    relation, systems = load_all(args)
    values = {name: by_query(args, scores, relation) for name, scores in systems.items()}
    rows = compare(values)
    print('\n'.join([describe(args, relation, rows), *heading]))
    print(f'\n{table(rows, args.level)}\n\n{summary(rows, args.level)}')
    if args.out:
        if args.out.suffix == '.csv':
            write_text(args.out, differences_csv(rows, level=args.level))
        else:
            write_text(args.out, json.dumps(as_json(rows, args), indent=2) + '\n')
    if args.plot:
        plot(args.plot, rows, args.level)


def check_options(args: argparse.Namespace) -> None:
    if len(args.files) < 2:
        raise ValueError('a comparison needs two files, the baseline first')
    if not 0 < args.level < 1:
        raise ValueError(f'--level must be between 0 and 1, not {args.level}')


def beside(files: Sequence[Path]) -> list[str]:
    """Return how the trainings differ from the baseline's; [] if no file records them.

    Raises:
        FileNotFoundError: no such file.
        ValueError: they were tested on different sets.
    """
    from mmvtr.engine.loops.facts import differing

    for path in files:
        if not path.is_file():
            raise FileNotFoundError(f'{path} does not exist')
    base, *others = [(str(path), read_about(path)) for path in files]
    if all(about.protocol is None for _, about in (base, *others)):
        return []
    lines = []
    for name, about in others:
        refuse_other_test(about, base[1], (name, base[0]))
        lines += differing(about.trainings, base[1].trainings, (name, base[0]))
    return [*dict.fromkeys(lines)]


def load_all(args: argparse.Namespace) -> tuple[Relation, dict[str, Directed]]:
    """Return the matches, and each system's scores in the order of the reference ids."""
    matches = read_matches(args.positives)
    files = {path: read_score_file(path, matches) for path in args.files}
    if len(files) < len(args.files):
        raise ValueError('a file is given twice')
    first, *_ = files.values()
    reference = next((file.ids for file in files.values() if file.named), first.ids)
    positives = positives_of(args.positives, matches, first.scores.t2v, reference)
    systems = {}
    for path, file in files.items():
        name = next(n for n in (path.stem, str(path)) if n not in systems)
        systems[name] = Directed(*(in_order(path, x, file, reference) for x in file.scores))
    return Relation(positives, text_ids=reference[0], video_ids=reference[1]), systems


def in_order(path: Path, scores: Tensor, file: ScoreFile, ids: Ids) -> Tensor:
    """Return scores ordered like ``ids``; unlisted pairs of a run rank last."""
    shape = tuple(len(names) for names in ids)
    if scores.shape != shape:
        raise ValueError(
            f'{path} is of {list(scores.shape)} texts and videos, the others of {list(shape)}'
        )
    if file.named:
        for kind, names, expected in zip(('text', 'video'), file.ids, ids):
            strange = sorted({*names} - {*expected})
            if strange:
                raise ValueError(
                    f'{path} has {kind} {strange[0]!r:.80}, which another file lacks '
                    f'({len(strange)} of {len(names)} in all)'
                )
        places = (
            torch.tensor([*map({n: i for i, n in enumerate(x)}.get, y)])
            for x, y in zip(file.ids, ids)
        )
        scores = scores[next(places)][:, next(places)]
    listed = ~scores.isnan()
    if listed.all():
        return scores
    depth, missing = listed.sum(1), int((~listed.any(1)).sum())
    print(
        f'note: {path} lists {int(depth[depth > 0].min())} videos a text and more; {missing} of '
        f'{len(depth)} texts are not in it; what it does not list stands last, in a tie'
    )
    return scores.where(listed, scores[listed].min() - 1)


def by_query(args: argparse.Namespace, scores: Directed, relation: Relation) -> QueryValues:
    """Return the values of each query, by default for each R@K and measure of judged pairs."""
    metric = RetrievalMetric(recall_at=RECALLS, v2t_protocols=('max_over_captions',))
    values = metric.by_query(scores, relation)
    default = [key for key in values if key.partition('_')[2].startswith('R')]
    if args.judgments:
        pairs = read_judgments(args.judgments, (relation.text_ids, relation.video_ids))
        judged = JudgedMetric(pairs, at_least=args.at_least, k=(1,))
        by_judgment = judged.by_query(scores, relation)
        values.update({f'judged_{key}': x for key, x in by_judgment.items() if 'share' not in key})
        default += [key for key in values if key.startswith('judged_')]
    unknown = sorted(set(args.metrics or ()) - values.keys())
    if unknown:
        raise ValueError(
            f'--metrics: {unknown[0]!r:.80} does not exist; there are {", ".join(values)}'
        )
    texts, videos = groups(relation.positives)
    if args.by == 'query':
        texts, videos = torch.arange(len(texts)), torch.arange(len(videos)) + len(texts)
    selected = {key: x for key, x in values.items() if key in (args.metrics or default)}
    return QueryValues(selected, dict(t2v=texts, v2t=videos))


def compare(systems: Mapping[str, QueryValues]) -> list[Difference]:
    """Return each system's comparison with the first one; metrics without values are dropped."""
    base, *others = systems

    def measured(name: str, key: str) -> Measured:
        arrays, of = systems[name].parts(key)
        total = sum(np.nanmean(x) if (x == x).any() else np.nan for x in arrays)
        return Measured({0: float(total)}, {0: arrays}, of)

    rows = [
        difference(name, key, measured(name, key), measured(base, key))
        for name in others
        for key in systems[name].values
    ]
    return corrected(row for row in rows if row is not None and row.queries)


def describe(args: argparse.Namespace, relation: Relation, rows: Sequence[Difference]) -> str:
    texts, videos = relation.positives.shape
    drawn = 'videos with their texts' if args.by == 'video' else 'queries'
    return (
        f'{texts} texts, {videos} videos; baseline {args.files[0]}; {drawn} are drawn\n'
        f'intervals: 95 % of a paired bootstrap, not corrected; p: permutation test, times Holm '
        f'over {len(rows)} comparisons'
    )


def table(rows: Sequence[Difference], level: float) -> str:
    """Return the comparisons as a text table."""
    head = 'system metric base own difference interval gained lost queries p corrected verdict'
    lines = [head.split()]
    for row in rows:
        lines.append(
            [
                row.system,
                row.metric,
                f'{row.base:.1f}',
                f'{row.own:.1f}',
                f'{row.mean:+.2f}',
                f'{row.low:+.2f}..{row.high:+.2f}',
                f'{row.gained}',
                f'{row.lost}',
                f'{row.queries}',
                f'{row.p:.4f}',
                f'{row.corrected:.4f}',
                row.verdict(level),
            ]
        )
    widths = [max(map(len, column)) for column in zip(*lines)]
    return '\n'.join(
        '  '.join(x.ljust(w) if i < 2 else x.rjust(w) for i, (x, w) in enumerate(zip(line, widths)))
        for line in lines
    )


def summary(rows: Sequence[Difference], level: float) -> str:
    """Return one sentence per system."""
    lines = []
    for name in dict.fromkeys(row.system for row in rows):
        verdicts = {row.metric: row.verdict(level) for row in rows if row.system == name}
        parts = [
            f'{word} in {", ".join(k for k, x in verdicts.items() if x == word)}'
            for word in RESOLVED
            if word in verdicts.values()
        ]
        lines.append(f'{name}: {"; ".join(parts) or "not resolved in any metric"}')
    return '\n'.join(lines)


def as_json(rows: Sequence[Difference], args: argparse.Namespace) -> dict[str, Any]:
    systems: dict[str, Any] = {}
    for row in rows:
        systems.setdefault(row.system, {})[row.metric] = as_dict(row, level=args.level)
    about = dict(baseline=str(args.files[0]), by=args.by, level=args.level, systems=systems)
    return about


def plot(path: Path, rows: Sequence[Difference], level: float) -> None:
    """Draw differences with their intervals, and the numbers of queries gained and lost."""
    # Import here: only needed with a plot.
    from mmvtr.visualization import save
    from mmvtr.visualization.difference_rows import difference_rows

    save(difference_rows(rows, level=level), path)


if __name__ == '__main__':
    main()
