"""Measure hubness, and what test-time transforms gain, from any model's saved scores.

    python tools/analysis_tools/eval_scores.py SCORES.npy --transform sinkhorn csls \\
        --query-source bank --bank-t2v BANK_T2V.npy --bank-v2t BANK_V2T.npy --out FILE.json

SCORES.npy holds T x V scores: rows are texts, columns are videos, higher is better.  It may also be
an .npz file (scores, text_ids, video_ids), a TREC run (any other suffix), or with --gallery the
embeddings of the texts.  Every transform needs queries that show which items are found too often:
those of a bank (for example of the training set), or the test queries themselves, which makes the
numbers transductive.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

from mmvtr.cli.start import tool

import torch
from torch import Tensor

from mmvtr.arrays import Debiaser
from mmvtr.arrays.choice import Pairs
from mmvtr.cli import Parser, output_file
from mmvtr.cli.transform_options import add_options, choices, numbers_given, options_given
from mmvtr.datasets import PairValues, write_run
from mmvtr.evaluation import (
    JudgedMetric,
    NormalisationMetric,
    Report,
    RetrievalMetric,
    directed,
    evaluate,
    protocol_line,
    results_table,
    transforms_table,
)
from mmvtr.functional import untied
from mmvtr.functional.metrics import hubness
from mmvtr.functional.similarities.distinct import asked_before, distinct_rows, row_groups
from mmvtr.functional.similarities.tiles import inner_products
from mmvtr.functional.transforms.transform_table import OF_BANK, TRANSFORMS
from mmvtr.storage import write_text
from mmvtr.storage.arrays import write_arrays
from mmvtr.structures import Directed, Relation
from score_files.cut_runs import measure_cut_run
from score_files.reading import (
    Ids,
    add_truth,
    numbered,
    positives_of,
    read_array,
    read_judgments,
    read_matches,
    read_matrix,
    read_score_file,
    refuse_constant,
)

#: k of the k-occurrence.
K = 10


class Banks(NamedTuple):
    """The inputs of the transforms besides the scores [T, V], with texts as rows.

    Attributes:
        queries: t2v [K, V] of bank texts, v2t [T, K] of bank videos; None where a direction has no
            bank, and stays raw.
        pairs: [K texts, K videos], scores within the bank; None = not given.
        items: t2v [M, V], scores of videos seen before with the test videos; v2t [M, T], of texts
            with the test texts; None = not given.
        own: int64 [P, 2], rows and columns of ``pairs`` that belong together; None = not given.
    """

    queries: Directed
    pairs: Optional[Tensor] = None
    items: Optional[Directed] = None
    own: Optional[Tensor] = None


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('scores', metavar='SCORES.npy', type=Path, help='float [T, V], texts x videos')
    add(
        '--gallery',
        type=Path,
        metavar='VIDEOS.npy',
        help='float [V, D]: SCORES.npy are embeddings of texts [T, D], scores their inner products',
    )
    add_truth(
        parser,
        'P.npy: bool or 0-1 [T, V], or int [T]: the video (column) of each text; default for a '
        'square matrix: its diagonal. Any other suffix: TREC qrels, grades above 0 are matches; a '
        'run needs them',
    )
    add(
        '--tie-range',
        action='store_true',
        help='also give ranks with all ties at best and at worst',
    )
    add(
        '--save',
        type=output_file,
        metavar='F',
        help='write the scores: F.npz, or else a TREC run; those of each transform to F_NAME.npz',
    )
    add(
        '--transform',
        nargs='+',
        action='extend',
        choices=choices(OF_BANK),
        default=[],
        help='transforms of the scores, each in a table beside the raw numbers; auto: the one that '
        '--bank-gallery chooses, whose row and column i are one pair; without it the usual one',
    )
    add(
        '--query-source',
        choices=('test', 'bank'),
        help='queries whose hubs a transform removes; required with --transform. test: all test '
        'queries at once, which no retrieval system has (transductive)',
    )
    add('--bank-t2v', type=Path, metavar='F', help='float [K, V]: K bank texts x the test videos')
    add('--bank-v2t', type=Path, metavar='F', help='float [T, K]: the test texts x K bank videos')
    add(
        '--bank-gallery',
        type=Path,
        metavar='F',
        help='for dbsn and auto: float [K, K], the bank texts x the bank videos',
    )
    add(
        '--item-banks',
        type=Path,
        nargs=2,
        metavar='F',
        help='for db_norm: float [M, V], videos seen before x the test videos; and float [M, T], '
        'texts seen before x the test texts',
    )
    add_options(parser, OF_BANK)
    add('--out', type=output_file, metavar='FILE.json', help='write all numbers to this file')
    add(
        '--plot',
        type=output_file,
        metavar='FILE.png',
        help='draw k-occurrence, and error rates by mass',
    )
    return parser.parse_args()


@tool
def main() -> None:
    args = parse_args()
    check_options(args)
    scores, positives, ids = load_all(args)
    judged = read_judgments(args.judgments, ids) if args.judgments else None
    if scores.isnan().any():
        grades = None if judged is None else torch.from_numpy(judged.matrix(*ids))
        evaluate_cut(args, scores, positives, grades)
        return
    banks = load_banks(args, scores)
    temperature, why = choose_temperature(args.temperature, scores)
    chosen = options_given(args, args.transform) if args.transform else {}
    fitted = {name: transform(name, scores, banks, how) for name, how in chosen.items()}
    transformed = {name: directions for name, (directions, _) in fitted.items()}
    used = {name: temperatures for name, (_, temperatures) in fitted.items()}
    metrics = [RetrievalMetric(), NormalisationMetric(temperature=temperature, k=K)]
    metrics += [JudgedMetric(judged, at_least=args.at_least)] if judged else []
    relation = Relation(positives, text_ids=ids[0], video_ids=ids[1])
    report = of_given(evaluate(metrics, {'scores': scores}, relation, transformed), banks.queries)
    if args.tie_range:
        report = with_tie_range(report, scores, relation)
    if args.save:
        save(args.save, scores, transformed, ids)
    again = transductive(args.query_source, scores, banks.queries)
    print(describe(args, scores, positives, banks.queries, f'{temperature:g} ({why})', again))
    print('\n' + table(report))
    if args.out:
        how = dict(query_source=args.query_source, transductive=bool(again))
        results = as_json(report, temperature, how, used)
        write_json(args.out, results)
    if args.plot:
        title = f'{args.scores.name}, temperature {temperature:g}'
        if args.transform:
            title += f', query source: {source_of(args, again)}'
        plot(args.plot, title, {'raw': scores, **transformed}, positives, temperature)


def check_options(args: argparse.Namespace) -> None:
    """Raise ValueError for contradictory options, before anything is read or computed."""
    banks = [args.bank_t2v, args.bank_v2t]
    if args.transform and args.query_source is None:
        raise ValueError(
            '--transform needs queries: say --query-source bank with --bank-t2v and --bank-v2t, or '
            '--query-source test (transductive)'
        )
    if not args.transform and (args.query_source or any(banks)):
        raise ValueError('--query-source and banks serve a transform: say which with --transform')
    if args.query_source == 'bank' and not any(banks):
        raise ValueError('--query-source bank needs --bank-t2v, --bank-v2t, or both')
    if any(banks) and not all(banks) and 'dbsn' in args.transform:
        raise ValueError('dbsn needs both --bank-t2v and --bank-v2t')
    if args.query_source == 'test' and any(banks):
        raise ValueError('--query-source test reads no bank: leave out --bank-t2v and --bank-v2t')
    for name, key, option in (
        ('dbsn', args.bank_gallery, '--bank-gallery'),
        ('db_norm', args.item_banks, '--item-banks'),
    ):
        read = name in args.transform or (name == 'dbsn' and 'auto' in args.transform)
        if (name in args.transform and key is None) or (key is not None and not read):
            raise ValueError(f'give --transform {name} and {option} together')
    if 'dbsn' in args.transform and args.query_source == 'test':
        raise ValueError('dbsn reads the items of a bank: take --query-source bank')
    if args.query_source == 'test' and args.bank_gallery:
        raise ValueError('--bank-gallery belongs to a bank: take --query-source bank')
    if args.transform or numbers_given(args).keys() - {'temperature'}:
        options_given(args, args.transform)  # refuses invalid options
    if args.gallery and args.scores.suffix != '.npy':
        raise ValueError(f'--gallery needs embeddings of texts as .npy, not {args.scores}')


def load_all(args: argparse.Namespace) -> tuple[Tensor, Tensor, Ids]:
    """Return scores [T, V] (NaN = not in the run), matches, and the ids of both."""
    path, matches = args.scores, read_matches(args.positives)
    if args.gallery:
        scores = of_embeddings(path, args.gallery)
        ids = numbered(scores)
    else:
        file = read_score_file(path, matches)
        if file.scores.t2v is not file.scores.v2t:
            raise ValueError(
                f'{path} has transformed scores, t2v and v2t: compare.py measures those'
            )
        scores, ids = file.scores.t2v, file.ids
    return scores, positives_of(args.positives, matches, scores, ids), ids


def of_embeddings(path: Path, gallery: Path) -> Tensor:
    """Return the inner products of embeddings, computed tile by tile."""
    texts, videos = read_array(path), read_array(gallery)
    try:
        tiles = inner_products(texts, videos)
        scores = torch.empty(tiles.shape)
        for part, tile in tiles.finite().parts():
            scores[:, part] = tile
        refuse_constant(path, scores)
    except (TypeError, ValueError) as error:
        raise ValueError(f'{path} x {gallery}: {error}') from error
    return scores


def save(path: Path, scores: Tensor, transformed: Mapping[str, Directed], ids: Ids) -> None:
    """Save the scores, and as archives the transformed scores."""
    names = dict(text_ids=ids[0], video_ids=ids[1])
    if path.suffix == '.npz':
        write_arrays(path, scores=scores.numpy(), **names)
    else:
        write_run(path, PairValues.of_matrix(scores.numpy(), *ids))
    for name, (t2v, v2t) in transformed.items():
        target = path.with_name(f'{path.stem}_{name}.npz')
        write_arrays(target, t2v=t2v.numpy(), v2t=v2t.numpy(), **names)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=2) + '\n')


def evaluate_cut(
    args: argparse.Namespace, table: Tensor, positives: Tensor, grades: Optional[Tensor]
) -> None:
    """Measure what a run that does not list all videos of each text allows."""
    if args.transform or args.plot or args.save or args.tie_range:
        raise ValueError(
            f'{args.scores} does not list all videos: leave --transform, --plot, --save and '
            '--tie-range out'
        )
    run = measure_cut_run(table, positives, grades, at_least=args.at_least)
    texts, videos = table.shape
    protocol = dict(scores=args.scores, texts=texts, videos=videos, depth=run.depth)
    print(protocol_line({**protocol, 'ties': 'mean rank'}))
    if run.missing:
        print(f'note: {run.missing} of {texts} texts are not in the run and count as not found')
    print(f'note: cut at {run.depth} videos a text, which is too few for {", ".join(run.left_out)}')
    values = {f'retrieval/{key}': value for key, value in run.values.items()}
    print('\n' + results_table(Report(values, {}, {})))
    if args.out:
        row = {**run.values, 'depth': run.depth, 'missing_texts': run.missing}
        write_json(args.out, {'raw': row})


def of_given(report: Report, banks: Directed) -> Report:
    """Leave out what transforms would say of a direction without a bank, and of both together."""
    lacks = [name for name, bank in banks._asdict().items() if bank is None]
    if not lacks:
        return report
    direction = 't2v' if lacks == ['v2t'] else 'v2t'
    transformed = {
        name: {key: x for key, x in values.items() if f'/{direction}_' in key}
        for name, values in report.transformed.items()
    }
    return report._replace(transformed=transformed)


def with_tie_range(report: Report, scores: Tensor, relation: Relation) -> Report:
    """Add the metrics with ties at their best and at their worst ranks."""
    extremes = {}
    for name, first in (('optimistic', relation.positives), ('pessimistic', ~relation.positives)):
        matrices = Directed(*(untied(scores, first.float(), dim=dim) for dim in (1, 0)))
        extremes[name] = evaluate([RetrievalMetric()], {'scores': matrices}, relation).values
    return report._replace(transformed={**report.transformed, **extremes})


def ties_at_top(scores: Tensor) -> str:
    counts = [
        int(((scores == scores.amax(dim, keepdim=True)).sum(dim) > 1).sum()) for dim in (1, 0)
    ]
    return f'{counts[0]} texts and {counts[1]} videos'


def load_banks(args: argparse.Namespace, scores: Tensor) -> Banks:
    """Return all banks that were given."""
    queries, pairs, items = load_queries(args, scores), None, None
    if args.bank_gallery:
        pairs = read_matrix(args.bank_gallery, ': no queries')
        sizes = [x if x is None else x.shape[dim] for dim, x in enumerate(queries)]
        expected = [max(filter(None, sizes)) if x is None else x for x in sizes]
        if list(pairs.shape) != expected:
            raise ValueError(
                f'{args.bank_gallery} {list(pairs.shape)} must be {expected}: the bank with itself'
            )
        if 'auto' in args.transform and expected[0] != expected[1]:
            raise ValueError(f'{args.bank_gallery} {expected}: row and column i must be one pair')
    if args.item_banks:
        items = Directed(*(read_matrix(path, ': no items') for path in args.item_banks))
        for path, bank, width in zip(args.item_banks, items, reversed(scores.shape)):
            if bank.shape[1] != width:
                raise ValueError(
                    f'{path} {list(bank.shape)} must be [items seen before, {width} test items]'
                )
    return different(Banks(queries, pairs, items))


def different(banks: Banks) -> Banks:
    """Return the bank without queries whose scores repeat: repeated queries count once."""
    pairs, matches = banks.pairs, None
    by_row = [banks.queries.t2v, banks.queries.v2t]
    by_row[1] = by_row[1] if by_row[1] is None else by_row[1].t()
    if pairs is not None:  # of a direction without a bank the pairs tell which queries repeat
        by_row = [x if x is not None else y for x, y in zip(by_row, (pairs, pairs.t()))]
    distinct = [None if x is None else distinct_rows(x) for x in by_row]
    queries = Directed(
        None if banks.queries.t2v is None else banks.queries.t2v[distinct[0]],
        None if banks.queries.v2t is None else banks.queries.v2t[:, distinct[1]],
    )
    if pairs is not None:
        pairs = pairs[distinct[0]][:, distinct[1]]
        groups = [row_groups(x) for x in by_row]
        if len(groups[0]) == len(groups[1]):
            matches = torch.stack(groups, dim=1).unique(dim=0)
    items = banks.items and Directed(*(x[distinct_rows(x)] for x in banks.items))
    return Banks(queries, pairs, items, matches)


def load_queries(args: argparse.Namespace, scores: Tensor) -> Directed:
    """Return the bank's scores of each direction, texts as rows: [K, V] and [T, K]."""
    if args.query_source != 'bank':
        return Directed(scores, scores)
    files = (args.bank_t2v, args.bank_v2t)
    banks = Directed(*(x and read_matrix(x, ': no queries') for x in files))
    texts, videos = scores.shape
    if banks.t2v is not None and banks.t2v.shape[1] != videos:
        raise ValueError(
            f'{args.bank_t2v} {list(banks.t2v.shape)} must be [bank texts, {videos} test videos]: '
            'a column for each column of the scores'
        )
    if banks.v2t is not None and banks.v2t.shape[0] != texts:
        raise ValueError(
            f'{args.bank_v2t} {list(banks.v2t.shape)} must be [{texts} test texts, bank videos]: '
            'a row for each row of the scores'
        )
    return banks


def choose_temperature(given: Union[None, str, float], scores: Tensor) -> tuple[float, str]:
    """Return the temperature of the normalisation error, and the reason for it."""
    reach = float(scores.abs().max())
    if given is None or isinstance(given, str):
        logits = reach > 2
        why = f'default for logits: scores reach {reach:.3g}' if logits else 'default for cosines'
        return (1.0 if logits else 0.01), why
    if not 0 < given < math.inf:
        raise ValueError(f'--temperature must be positive, not {given}')
    if reach / given > 1e30:
        raise ValueError(f'--temperature {given:g} is too small for scores that reach {reach:.3g}')
    return given, 'given'


def transform(
    name: str, scores: Tensor, banks: Banks, options: Mapping[str, Any]
) -> tuple[Directed, list[Optional[float]]]:
    """Transform both directions, queries as rows; return the scores and the temperatures."""
    temperatures = []
    reads = TRANSFORMS[name].reads if name in TRANSFORMS else ()

    def one_way(
        scores: Tensor,
        bank: Optional[Tensor],
        pairs: Optional[Tensor],
        items: Optional[Tensor],
        matches: Optional[Tensor],
    ) -> Tensor:
        if bank is None:
            temperatures.append(None)
            return scores
        extra = dict(bank_gallery=pairs, item_bank=items)
        extra = {key: x for key, x in extra.items() if key in reads}
        both = None
        if matches is not None:
            both = Pairs(matches, lambda rows, items: pairs[rows][:, items])
        fitted = Debiaser(name, **options).fit_scores(bank, extra_inputs=extra, pairs=both)
        if name == 'auto':
            print(f'auto: {fitted.why_}')
        temperatures.append(fitted.options_.get('temperature'))
        return fitted.transform_scores(scores)

    queries, pairs = banks.queries, banks.pairs
    t2v, v2t = banks.items or (None, None)
    back = None if pairs is None else pairs.t()
    turned = None if banks.own is None else banks.own.flip(1).unique(dim=0)
    videos = None if queries.v2t is None else queries.v2t.t()
    transformed = Directed(
        one_way(scores, queries.t2v, pairs, t2v, banks.own),
        one_way(scores.t(), videos, back, v2t, turned).t(),
    )
    return transformed, temperatures


def describe(
    args: argparse.Namespace,
    scores: Tensor,
    positives: Tensor,
    banks: Directed,
    temperature: str,
    again: Sequence[str],
) -> str:
    """Return the protocol, and a line for each warning."""
    texts, videos = scores.shape
    counts = positives.sum(0)
    least, most = int(counts.min()), int(counts.max())
    protocol: dict[str, Any] = {
        'scores': args.scores,
        'texts': texts,
        'videos': videos,
        'texts a video': least if least == most else f'{least} to {most}',
        'ties': f'mean rank ({ties_at_top(scores)} tie at the top)',
        'temperature of the error': temperature,
    }
    notes = [*again]
    if args.transform:
        protocol['query source'] = source_of(args, again)
        options = [f'{name} {value}' for name, value in numbers_given(args).items()]
        protocol['options'] = ', '.join(options) or 'those of the table'
    if args.query_source == 'bank':
        sides = (
            (banks.t2v, 0, 'texts', 'videos', videos),
            (banks.v2t, 1, 'videos', 'texts', texts),
        )
        counts = [(x.shape[dim], *rest) for x, dim, *rest in sides if x is not None]
        protocol['bank'] = ', '.join(f'{n} different {what}' for n, what, _, _ in counts)
        for n, what, others, there in counts:
            if n < there:
                notes.append(f'a bank of {n} {what} for {there} {others} is small, it may hurt')
        if len(counts) < 2:
            only, left = (
                ('--bank-t2v', 'video to text')
                if banks.v2t is None
                else ('--bank-v2t', 'text to video')
            )
            notes.append(f'{only} alone: {left} is not transformed')
    return '\n'.join([protocol_line(protocol), *(f'note: {note}' for note in notes)])


def source_of(args: argparse.Namespace, again: Sequence[str]) -> str:
    return args.query_source + ' (transductive)' * bool(again)


def transductive(source: Optional[str], scores: Tensor, banks: Directed) -> list[str]:
    """Return a line for each way in which the transforms have read the test queries."""
    if source == 'test':
        return ['transductive: the transforms have read all test queries at once']
    if source is None:
        return []
    sides = ((banks.t2v, scores, 'texts'), (banks.v2t, scores, 'videos'))
    notes = [
        asked_before(*((x, y) if what == 'texts' else (x.t(), y.t())), f'test {what}')
        for x, y, what in sides
        if x is not None
    ]
    return [note for note in notes if note]


def table(report: Report) -> str:
    """Return a table of raw and transformed metrics and of chance, side by side."""
    short = {name: name.removesuffix('_softmax') for name in report.transformed}
    short['unbalanced_sinkhorn'] = 'unbal.'
    columns = {short[name]: x for name, x in report.transformed.items()}
    return transforms_table(report._replace(transformed={**columns, 'chance': report.chance}))


def as_json(
    report: Report,
    temperature: float,
    how: Mapping[str, Any],
    used: Mapping[str, list[Optional[float]]],
) -> dict[str, dict]:
    """Return the metrics by transform, with keys without prefix."""
    results: dict[str, dict] = {}
    for name, values in {'raw': report.values, **report.transformed}.items():
        row: dict[str, Any] = {
            key.removeprefix('retrieval/'): value
            for key, value in values.items()
            if key.startswith('retrieval/') and not key.endswith('gmean')
        }
        row.update({k.replace('/', '_'): x for k, x in values.items() if k.startswith('judged/')})
        there = [x for x in ('t2v', 'v2t') if f'normalisation/{x}_error' in values]
        if not there:  # ties at their best or worst
            results[name] = row
            continue
        for direction in there:
            row[f'{direction}_norm_error'] = values[f'normalisation/{direction}_error']
            row[f'{direction}_hubness'] = values[f'normalisation/{direction}_hubness']
        row['temperature'] = temperature
        if name != 'raw':
            row.update(how)
            both = zip(('t2v_temperature', 'v2t_temperature'), used[name])
            row.update({key: x for key, x in both if x is not None})
        results[name] = row
    return results


def plot(
    path: Path,
    title: str,
    matrices: dict[str, Tensor | Directed],
    positives: Tensor,
    temperature: float,
) -> None:
    """Plot the k-occurrence of all matrices and the raw error rates, for each direction."""
    # Import here: only needed with a plot.
    from drawings.spreads import occurrence_and_errors
    from mmvtr.visualization import save
    from mmvtr.visualization.hubness import DIRECTIONS, MASS_EDGES

    pairs = {name: directed(x) for name, x in matrices.items()}
    rates = {
        direction: hubness.error_rates_by_mass(
            scores, positives, temperature=temperature, dim=dim, edges=MASS_EDGES
        )
        for direction, scores, dim in zip(DIRECTIONS, pairs['raw'], (1, 0))
    }
    save(occurrence_and_errors(pairs, rates, k=K, title=title), path)


if __name__ == '__main__':
    main()
