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
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor

from mmvtr.command_line import Parser, output_file, tool
from mmvtr.evaluation import JudgedMetric, RetrievalMetric
from mmvtr.evaluation.paired import Paired, holm, paired
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
RESOLVED = ('better', 'worse')


class Row(NamedTuple):
    """The comparison of a system with the baseline in one metric.

    Attributes:
        system, metric: their names.
        base, own: means of baseline and system.
        test: result of the paired test.
        p: corrected p.
    """

    system: str
    metric: str
    base: float
    own: float
    test: Paired
    p: float

    def verdict(self, level: float) -> str:
        """Return 'better' or 'worse' if p is below ``level``, else 'not resolved'."""
        if self.p >= level or not self.test.mean:
            return 'not resolved'
        return 'better' if self.test.mean > 0 else 'worse'


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
    add('--out', type=output_file, metavar='FILE.json', help='write all numbers to this file')
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
    rows = compare(values, relation, args.by)
    print('\n'.join([describe(args, relation, rows), *heading]))
    print(f'\n{table(rows, args.level)}\n\n{summary(rows, args.level)}')
    if args.out:
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
        for kind, names, wanted in zip(('text', 'video'), file.ids, ids):
            strange = sorted({*names} - {*wanted})
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


def by_query(args: argparse.Namespace, scores: Directed, relation: Relation) -> dict[str, Tensor]:
    """Return the value of each metric for each query."""
    metric = RetrievalMetric(recall_at=RECALLS, v2t_protocols=('max_over_captions',))
    values = metric.by_query(scores, relation)
    if args.judgments:
        pairs = read_judgments(args.judgments, (relation.text_ids, relation.video_ids))
        judged = JudgedMetric(pairs, at_least=args.at_least, k=(1,))
        found = judged.by_query(scores, relation)
        values.update({f'judged_{key}': x for key, x in found.items() if 'share' not in key})
    unknown = sorted(set(args.metrics or ()) - values.keys())
    if unknown:
        raise ValueError(
            f'--metrics: {unknown[0]!r:.80} does not exist; there are {", ".join(values)}'
        )
    return {key: x for key, x in values.items() if key in (args.metrics or values)}


def clusters(positives: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return group numbers, int64 [T] and [V], of the components connected by annotated pairs."""
    from scipy.sparse import bmat, csr_matrix
    from scipy.sparse.csgraph import connected_components

    pairs = csr_matrix(positives.numpy())
    _, of_all = connected_components(bmat([[None, pairs], [pairs.T, None]]), directed=False)
    return of_all[: len(positives)], of_all[len(positives) :]


def compare(values: Mapping[str, Mapping[str, Tensor]], relation: Relation, by: str) -> list[Row]:
    """Return each system's comparison with the first one; metrics without values are dropped."""
    base, *others = values
    groups = clusters(relation.positives) if by == 'video' else (None, None)
    found = []
    for name in others:
        for key, own in values[name].items():
            theirs, of = values[base][key].numpy(), groups['v2t' in key]
            test = paired(own.numpy(), theirs, of)
            if test is not None:
                found.append(Row(name, key, float(np.nanmean(theirs)), 0.0, test, 1.0))
    corrected = holm([row.test.p for row in found])
    return [r._replace(own=r.base + r.test.mean, p=p) for r, p in zip(found, corrected)]


def describe(args: argparse.Namespace, relation: Relation, rows: Sequence[Row]) -> str:
    texts, videos = relation.positives.shape
    drawn = 'videos with their texts' if args.by == 'video' else 'queries'
    return (
        f'{texts} texts, {videos} videos; baseline {args.files[0]}; {drawn} are drawn\n'
        f'intervals: 95 % of a paired bootstrap, not corrected; p: permutation test, times Holm '
        f'over {len(rows)} comparisons'
    )


def table(rows: Sequence[Row], level: float) -> str:
    """Return the comparisons as a text table."""
    head = 'system metric base own difference interval gained lost queries p corrected verdict'
    lines = [head.split()]
    for row in rows:
        test = row.test
        lines.append(
            [
                row.system,
                row.metric,
                f'{row.base:.1f}',
                f'{row.own:.1f}',
                f'{test.mean:+.2f}',
                f'{test.low:+.2f}..{test.high:+.2f}',
                f'{test.gained}',
                f'{test.lost}',
                f'{test.queries}',
                f'{test.p:.4f}',
                f'{row.p:.4f}',
                row.verdict(level),
            ]
        )
    widths = [max(map(len, column)) for column in zip(*lines)]
    return '\n'.join(
        '  '.join(x.ljust(w) if i < 2 else x.rjust(w) for i, (x, w) in enumerate(zip(line, widths)))
        for line in lines
    )


def summary(rows: Sequence[Row], level: float) -> str:
    """Return one sentence per system."""
    lines = []
    for name in dict.fromkeys(row.system for row in rows):
        said = {row.metric: row.verdict(level) for row in rows if row.system == name}
        parts = [
            f'{word} in {", ".join(k for k, x in said.items() if x == word)}'
            for word in RESOLVED
            if word in said.values()
        ]
        lines.append(f'{name}: {"; ".join(parts) or "not resolved in any metric"}')
    return '\n'.join(lines)


def as_json(rows: Sequence[Row], args: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in rows:
        numbers = {**row.test._asdict(), 'base': row.base, 'own': row.own, 'corrected_p': row.p}
        numbers['verdict'] = row.verdict(args.level)
        found.setdefault(row.system, {})[row.metric] = numbers
    about = dict(baseline=str(args.files[0]), by=args.by, level=args.level, systems=found)
    return about


def plot(path: Path, rows: Sequence[Row], level: float) -> None:
    """Draw differences with their intervals, and the numbers of queries gained and lost."""
    # Import here: only needed with a plot.
    from drawings.difference_rows import Difference, differences
    from mmvtr.visualization import save

    several = len({row.system for row in rows}) > 1
    drawn = [
        Difference(
            f'{row.system}  {row.metric}' if several else row.metric,
            *(row.test.mean, row.test.low, row.test.high, row.test.gained, row.test.lost),
            row.verdict(level),
        )
        for row in rows
    ]
    save(differences(drawn, title='' if several else rows[0].system), path)


if __name__ == '__main__':
    main()
