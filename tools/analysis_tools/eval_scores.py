"""What hubness costs any model, and what a test-time transform gives back, from its saved scores.

    python tools/analysis_tools/eval_scores.py SCORES.npy --transform sinkhorn csls \\
        --query-source bank --bank-t2v BANK_T2V.npy --bank-v2t BANK_V2T.npy --out FILE.json

SCORES.npy holds T x V scores: rows are texts, columns are videos, higher is better.  It may also be
an .npz file (scores, text_ids, video_ids), a TREC run (any other suffix), or with --gallery the
embeddings of the texts.  Every
transform needs queries that tell which items are found too often: those of a bank (say, of the
training set), or the test queries themselves, which makes the numbers transductive.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any, Callable, NoReturn, Optional, Sequence

import numpy as np
import torch
from torch import Tensor

from mmvtr.datasets import PairValues, read_qrels, read_run, write_run
from mmvtr.evaluation import (
    JudgedMetric,
    NormalisationMetric,
    Report,
    RetrievalMetric,
    directed,
    evaluate,
    measure_cut_run,
    protocol_line,
    results_table,
    transforms_table,
)
from mmvtr.functional import hubness, untied
from mmvtr.functional import score_transforms as fn
from mmvtr.functional.tiles import inner_products, refuse_non_finite
from mmvtr.storage import write_atomically
from mmvtr.structures import Directed, Relation

TRANSFORMS = ('sinkhorn', 'inverted_softmax', 'dual_softmax', 'qb_norm', 'csls')
#: Neighbours of the k-occurrence and of CSLS, where there are as many.
K = 10
#: Borders of relative mass in the plot.
EDGES = tuple(2.0**i for i in range(-4, 5))


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('scores', metavar='SCORES.npy', type=Path, help='float [T, V], texts x videos')
    add(
        '--gallery',
        type=Path,
        metavar='VIDEOS.npy',
        help='float [V, D]: SCORES.npy are embeddings of texts [T, D], scores their inner products',
    )
    add(
        '--positives',
        type=Path,
        metavar='P.npy',
        help='bool or 0-1 [T, V], or int [T]: the video (column) of each text; default for a '
        'square matrix: its diagonal. Any other suffix: TREC qrels, grades above 0 are matches; a '
        'run needs them',
    )
    add('--judgments', type=Path, metavar='QRELS', help='judged pairs, query 0 item grade')
    add(
        '--at-least',
        type=float,
        default=1.0,
        metavar='X',
        help='the lowest grade of --judgments that is right (default: 1)',
    )
    add('--tie-range', action='store_true', help='ranks if ties fall at best and at worst, too')
    add('--save', type=Path, metavar='F', help='the scores again: F.npz, or else a TREC run')
    add(
        '--transform',
        nargs='+',
        action='extend',
        choices=TRANSFORMS,
        default=[],
        help='of the scores, each in a table beside the raw numbers',
    )
    add(
        '--query-source',
        choices=('test', 'bank'),
        help='whose hubs a transform removes; required with --transform. test: all test queries at '
        'once, which no retrieval system has (transductive)',
    )
    add('--bank-t2v', type=Path, metavar='F', help='float [K, V]: K bank texts x the test videos')
    add('--bank-v2t', type=Path, metavar='F', help='float [T, K]: the test texts x K bank videos')
    add(
        '--temperature',
        type=float,
        metavar='X',
        help="divides the scores; default 0.01 (CLIP's) for cosines, 1 for scores beyond +-2, "
        'which are taken as logits: divided already',
    )
    add('--iters', type=int, default=4, metavar='N', help='of Sinkhorn-Knopp (default: 4)')
    add('--out', type=Path, metavar='FILE.json', help='for all numbers')
    add('--plot', type=Path, metavar='FILE.png', help='k-occurrence, and error rates by mass')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    check_options(args)
    scores, positives, ids = load_all(args)
    judged = load_judgments(args, ids)
    if scores.isnan().any():
        grades = None if judged is None else torch.from_numpy(judged.matrix(*ids))
        evaluate_cut(args, scores, positives, grades)
        return
    if args.save:
        save(args.save, scores, ids)
    banks = load_banks(args, scores)
    temperature, why = choose_temperature(args.temperature, scores)
    chosen = dict.fromkeys(args.transform)
    transformed = {name: transform(name, scores, banks, temperature, args.iters) for name in chosen}
    metrics = [RetrievalMetric(), NormalisationMetric(temperature=temperature, k=K)]
    metrics += [JudgedMetric(judged, at_least=args.at_least)] if judged else []
    relation = Relation(positives, text_ids=ids[0], video_ids=ids[1])
    report = evaluate(metrics, {'scores': scores}, relation, transformed)
    if args.tie_range:
        report = with_tie_range(report, scores, relation)
    print(describe(args, scores, positives, banks, f'{temperature:g} ({why})'))
    print('\n' + table(report))
    if args.out:
        results = as_json(report, temperature, args.query_source)
        args.out.write_text(json.dumps(results, indent=2) + '\n')
    if args.plot:
        title = f'{args.scores.name}, temperature {temperature:g}'
        if args.transform:
            title += f', query source: {source_of(args)}'
        plot(args.plot, title, {'raw': scores, **transformed}, positives, temperature)


def fail(message: object) -> NoReturn:
    raise SystemExit(f'error: {message}')


def check_options(args: argparse.Namespace) -> None:
    """Refuse what does not fit together, before anything is read or computed."""
    banks = [args.bank_t2v, args.bank_v2t]
    if args.transform and args.query_source is None:
        fail(
            '--transform needs queries: say --query-source bank with --bank-t2v and --bank-v2t, or '
            '--query-source test (transductive)'
        )
    if not args.transform and (args.query_source or any(banks)):
        fail('--query-source and banks serve a transform: say which with --transform')
    if args.query_source == 'bank' and not all(banks):
        fail('--query-source bank needs both --bank-t2v and --bank-v2t')
    if args.query_source == 'test' and any(banks):
        fail('--query-source test reads no bank: leave out --bank-t2v and --bank-v2t')
    if args.temperature is not None and not 0 < args.temperature < math.inf:
        fail(f'--temperature must be positive, not {args.temperature}')
    if args.iters < 0:
        fail(f'--iters must be 0 or more, not {args.iters}')
    if args.gallery and args.scores.suffix != '.npy':
        fail(f'--gallery needs embeddings of texts as .npy, not {args.scores}')
    for path in (args.out, args.plot, args.save):
        if path is not None and not path.parent.is_dir():
            fail(f'{path}: the folder {path.parent} does not exist')
        if path is not None and path.is_dir():
            fail(f'{path} is a folder, expected the name of a file')


Ids = tuple[Sequence[str], Sequence[str]]


def load_all(args: argparse.Namespace) -> tuple[Tensor, Tensor, Ids]:
    """Scores [T, V] (NaN = not in the run), matches and the ids of both."""
    path, qrels = args.scores, None
    if args.positives is not None and args.positives.suffix != '.npy':
        qrels = told(read_qrels, args.positives)
    if path.suffix not in ('.npy', '.npz'):
        if qrels is None:
            fail(f'{path} is a run: say who matches as qrels, --positives FILE')
        run = told(read_run, path)
        ids = ([*dict.fromkeys(qrels.texts)], [*dict.fromkeys([*run.videos, *qrels.videos])])
        scores = torch.from_numpy(told(run.matrix, *ids))
        if not scores.isnan().any():
            refuse_constant(path, scores)
    else:
        scores, ids = load_matrix(args)
    if qrels is None:
        return scores, load_positives(args.positives, scores), ids
    positives = torch.from_numpy(told(qrels.matrix, *ids)) > 0
    alone = (~positives.any(1)).nonzero().flatten().tolist()
    if alone:
        fail(
            f'{args.positives}: text {ids[0][alone[0]]!r:.80} has no video (so {len(alone)} of '
            f'{len(positives)} texts)'
        )
    return scores, positives, ids


def load_matrix(args: argparse.Namespace) -> tuple[Tensor, Ids]:
    """Of an .npy or .npz file; ids that it does not have are numbers from 0."""
    path, names = args.scores, None
    if path.suffix == '.npz':
        array, names = load_archive(path)
        scores = checked_scores(path, array)
    elif args.gallery:
        texts, videos = load(path), load(args.gallery)
        try:
            tiles = inner_products(texts, videos)
            scores = torch.empty(tiles.shape)
            for part, tile in tiles.finite().parts():
                scores[:, part] = tile
        except (TypeError, ValueError) as error:
            fail(f'{path} x {args.gallery}: {error}')
        refuse_constant(path, scores)
    else:
        scores = load_scores(path)
    return scores, names or tuple([str(i) for i in range(size)] for size in scores.shape)


def load_archive(path: Path) -> tuple[np.ndarray, Ids]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            missing = sorted({'scores', 'text_ids', 'video_ids'} - set(archive.files))
            if missing:
                fail(f'{path} is an archive of several arrays, but has no {missing}')
            array = archive['scores']
            ids = tuple(archive[f'{kind}_ids'].astype(str).tolist() for kind in ('text', 'video'))
    except FileNotFoundError:
        fail(f'{path} does not exist')
    except (OSError, ValueError, EOFError) as error:
        fail(f'{path} is no .npz file of numbers and ids: {error}')
    for kind, names, size in zip(('text', 'video'), ids, array.shape):
        if not isinstance(names, list) or len(names) != size or len(set(names)) < size:
            fail(f'{path}: {kind}_ids must be {size} ids that differ')
    return array, ids


def load_judgments(args: argparse.Namespace, ids: Ids) -> Optional[PairValues]:
    """Judged pairs, all of them of these texts and videos."""
    if args.judgments is None:
        return None
    pairs = told(read_qrels, args.judgments)
    told(pairs.matrix, *ids)
    return pairs


def told(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, its errors as one line."""
    try:
        return function(*arguments)
    except FileNotFoundError:
        fail(f'{arguments[0]} does not exist')
    except (OSError, ValueError) as error:
        fail(error)


def save(path: Path, scores: Tensor, ids: Ids) -> None:
    if path.suffix == '.npz':
        arrays = dict(scores=scores.numpy(), text_ids=ids[0], video_ids=ids[1])
        write_atomically(path, lambda file: np.savez(file, **arrays))
    else:
        told(write_run, path, PairValues.of_matrix(scores.numpy(), *ids))


def evaluate_cut(
    args: argparse.Namespace, table: Tensor, positives: Tensor, grades: Optional[Tensor]
) -> None:
    """A run that does not list all videos of each text: what it can tell."""
    asked = args.transform or args.plot or args.save or args.tie_range
    if asked:
        fail(f'{args.scores} does not list all videos: no --transform, --plot, --save, --tie-range')
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
        args.out.write_text(json.dumps({'raw': row}, indent=2) + '\n')


def with_tie_range(report: Report, scores: Tensor, relation: Relation) -> Report:
    """Beside the mean ranks those of ties at their best and at their worst."""
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


def load(path: Path) -> np.ndarray:
    try:
        array = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        fail(f'{path} does not exist')
    except (OSError, ValueError, EOFError) as error:
        fail(f'{path} is no .npy file of numbers: {error}')
    if not isinstance(array, np.ndarray):
        fail(f'{path} is an archive of several arrays, expected one .npy array')
    return array


def load_scores(path: Path, empty: str = '') -> Tensor:
    """A matrix of finite scores in its own precision, float32 at least.

    Args:
        path: of a .npy file.
        empty: what it means if there are none.
    """
    return checked_scores(path, load(path), empty)


def checked_scores(path: Path, array: np.ndarray, empty: str = '') -> Tensor:
    if array.ndim != 2 or array.dtype.kind not in 'fiu':
        fail(f'{path} must be 2-d scores [texts, videos], not {array.dtype} {list(array.shape)}')
    if not array.size:
        fail(f'{path} {list(array.shape)} is empty{empty}')
    short = array.dtype.kind == 'f' and array.dtype.itemsize <= 4
    scores = torch.from_numpy(array.astype(np.float32 if short else np.float64))
    try:
        refuse_non_finite(scores, name=str(path))
    except ValueError as error:
        fail(error)
    refuse_constant(path, scores)
    return scores


def refuse_constant(path: Path, scores: Tensor) -> None:
    if (scores == scores[0, 0]).all():
        fail(f'{path} {list(scores.shape)} is all one value ({scores[0, 0]:g}): nothing to rank')


def load_positives(path: Optional[Path], scores: Tensor) -> Tensor:
    """bool [T, V]; from a file, or the diagonal of a square matrix."""
    texts, videos = scores.shape
    if path is None:
        if texts != videos:
            fail(f'{texts} texts and {videos} videos are not pairs: say who matches, --positives')
        return torch.eye(texts, dtype=torch.bool)
    array = load(path)
    if array.shape == (texts,) and array.dtype.kind in 'iu':
        wrong = np.flatnonzero((array < 0) | (array >= videos))
        if len(wrong):
            fail(f'{path}[{wrong[0]}] is {array[wrong[0]]}, expected a video of 0 to {videos - 1}')
        return torch.arange(videos) == torch.from_numpy(array.astype(np.int64))[:, None]
    if array.shape != (texts, videos) or not np.isin(array, (0, 1)).all():
        fail(
            f'{path} must be bool or 0-1 {[texts, videos]}, or int {[texts]} (the video of each '
            f'text), not {array.dtype} {list(array.shape)}'
        )
    positives = torch.from_numpy(array.astype(bool))
    alone = (~positives.any(1)).nonzero().flatten().tolist()
    if alone:
        fail(f'{path}: text {alone[0]} has no video (so {len(alone)} of {texts} texts)')
    return positives


def load_banks(args: argparse.Namespace, scores: Tensor) -> Directed:
    """What normalises each direction, both with texts as rows: [K, V] and [T, K]."""
    if args.query_source != 'bank':
        return Directed(scores, scores)
    banks = Directed(*(load_scores(x, ': no queries') for x in (args.bank_t2v, args.bank_v2t)))
    texts, videos = scores.shape
    if banks.t2v.shape[1] != videos:
        fail(
            f'{args.bank_t2v} {list(banks.t2v.shape)} must be [bank texts, {videos} test videos]: '
            'a column for each column of the scores'
        )
    if banks.v2t.shape[0] != texts:
        fail(
            f'{args.bank_v2t} {list(banks.v2t.shape)} must be [{texts} test texts, bank videos]: '
            'a row for each row of the scores'
        )
    return banks


def choose_temperature(given: Optional[float], scores: Tensor) -> tuple[float, str]:
    """The temperature, and why it is this one."""
    reach = float(scores.abs().max())
    if given is None:
        logits = reach > 2
        why = f'default for logits: scores reach {reach:.3g}' if logits else 'default for cosines'
        return (1.0 if logits else 0.01), why
    if reach / given > 1e30:
        fail(f'--temperature {given:g} is too small for scores that reach {reach:.3g}')
    return given, 'given'


def transform(
    name: str, scores: Tensor, banks: Directed, temperature: float, iterations: int
) -> Directed:
    """Both directions; a transform sees queries as rows."""
    how: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        'sinkhorn': lambda s, bank: fn.sinkhorn_scores(
            s, bank, temperature=temperature, iterations=iterations
        ),
        'inverted_softmax': lambda s, bank: fn.inverted_softmax(s, bank, temperature=temperature),
        'dual_softmax': lambda s, bank: fn.dual_softmax(s, bank, temperature=temperature),
        'qb_norm': lambda s, bank: fn.qb_norm(s, bank, temperature=temperature),
        'csls': lambda s, bank: fn.csls(s, bank, k=min(K, s.shape[1], len(bank))),
    }
    return Directed(how[name](scores, banks.t2v), how[name](scores.t(), banks.v2t.t()).t())


def describe(
    args: argparse.Namespace, scores: Tensor, positives: Tensor, banks: Directed, temperature: str
) -> str:
    """The protocol, and a line for each thing that a reader must not miss."""
    texts, videos = scores.shape
    counts = positives.sum(0)
    least, most = int(counts.min()), int(counts.max())
    protocol: dict[str, Any] = {
        'scores': args.scores,
        'texts': texts,
        'videos': videos,
        'texts a video': least if least == most else f'{least} to {most}',
        'ties': f'mean rank ({ties_at_top(scores)} tie at the top)',
        'temperature': temperature,
    }
    notes = []
    if args.transform:
        protocol['query source'] = source_of(args)
        protocol['sinkhorn iterations'] = args.iters if 'sinkhorn' in args.transform else None
    if args.query_source == 'test':
        notes.append('transductive: the transforms have read all test queries at once')
    if args.query_source == 'bank':
        bank_texts, bank_videos = len(banks.t2v), banks.v2t.shape[1]
        protocol['bank'] = f'{bank_texts} texts, {bank_videos} videos'
        if bank_texts < videos:
            notes.append(f'a bank of {bank_texts} texts for {videos} videos is small, it may hurt')
        if bank_videos < texts:
            notes.append(f'a bank of {bank_videos} videos for {texts} texts is small, it may hurt')
    return '\n'.join([protocol_line(protocol), *(f'note: {note}' for note in notes)])


def source_of(args: argparse.Namespace) -> str:
    return 'test (transductive)' if args.query_source == 'test' else args.query_source


def table(report: Report) -> str:
    """Raw, transformed and chance side by side."""
    columns = {name.removesuffix('_softmax'): x for name, x in report.transformed.items()}
    return transforms_table(report._replace(transformed={**columns, 'chance': report.chance}))


def as_json(report: Report, temperature: float, source: Optional[str]) -> dict[str, dict]:
    """The numbers by transform; keys have no prefix."""
    results: dict[str, dict] = {}
    for name, values in {'raw': report.values, **report.transformed}.items():
        row: dict[str, Any] = {
            key.removeprefix('retrieval/'): value
            for key, value in values.items()
            if key.startswith('retrieval/') and not key.endswith('gmean')
        }
        row.update({k.replace('/', '_'): x for k, x in values.items() if k.startswith('judged/')})
        if 'normalisation/t2v_error' not in values:  # ties at their best or worst
            results[name] = row
            continue
        for direction in ('t2v', 'v2t'):
            row[f'{direction}_norm_error'] = values[f'normalisation/{direction}_error']
            row[f'{direction}_hubness'] = values[f'normalisation/{direction}_hubness']
        row['temperature'] = temperature
        if name != 'raw':
            row.update(query_source=source, transductive=source == 'test')
        results[name] = row
    return results


def plot(
    path: Path,
    title: str,
    matrices: dict[str, Tensor | Directed],
    positives: Tensor,
    temperature: float,
) -> None:
    """A row a direction: k-occurrence of all matrices, and error rates by mass of the raw one."""
    from matplotlib.figure import Figure  # only now: a run without a picture need not wait for it

    figure = Figure(figsize=(11, 8.5), layout='constrained')
    figure.suptitle(title)
    axes = figure.subplots(2, 2)
    for row, (dim, item, query) in enumerate(((1, 'video', 'text'), (0, 'text', 'video'))):
        pairs = {name: directed(x)[row] for name, x in matrices.items()}
        draw_occurrence(axes[row, 0], pairs, dim, item, query)
        rates = hubness.error_rates_by_mass(
            pairs['raw'], positives, temperature=temperature, dim=dim, edges=EDGES
        )
        draw_rates(axes[row, 1], rates, item, query)
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        fail(f'{path}: {error}')


def draw_occurrence(
    axis: Any, matrices: dict[str, Tensor], dim: int, item: str, query: str
) -> None:
    """Share of items by k-occurrence in doubling classes; raw as bars, transformed as lines."""
    k = min(K, matrices['raw'].shape[dim])
    counts = {name: hubness.k_occurrence(x, k=k, dim=dim).numpy() for name, x in matrices.items()}
    tops = [0, *(2**i for i in range(int(max(x.max() for x in counts.values())).bit_length() + 1))]
    borders = [-0.5, *(top + 0.5 for top in tops)]  # ties leave fractions of an occurrence
    for name, x in counts.items():
        share = 100 * np.histogram(x, borders)[0] / len(x)
        if name == 'raw':
            axis.bar(range(len(tops)), share, color='0.8', label=name)
        else:
            axis.plot(range(len(tops)), share, marker='o', markersize=3.5, label=name)
    ranges = [f'{low + 1}-{top}' if top > low + 1 else f'{top}' for low, top in zip(tops, tops[1:])]
    axis.set_xticks(range(len(tops)), ['0', *ranges], rotation=30)
    axis.set_xlabel(f'{query} queries that have a {item} among their {k} best')
    axis.set_ylabel(f'{item}s (%)')
    axis.set_title(f'{query} to {item}: how often a {item} is found')
    axis.legend(frameon=False)


def draw_rates(axis: Any, rates: hubness.ErrorRates, item: str, query: str) -> None:
    """NCL Fig. 3, and how many items each point stands for."""
    borders = [EDGES[0] / 2, *EDGES, 2 * EDGES[-1]]
    share = 100 * rates.items / rates.items.sum()
    axis.stairs(share, borders, fill=True, color='0.9', label=f'{item}s with this probability')
    mass = rates.mass.clamp(borders[0], borders[-1])
    for name, values in (
        (f'false negatives: own queries that miss the {item}', rates.false_negatives),
        (f'false positives: queries that find the {item} wrongly', rates.false_positives),
    ):
        axis.plot(mass, 100 * values, marker='o', label=name)
    axis.axvline(1, ymax=100 / 140, color='0.4', linewidth=0.8, linestyle='--')
    axis.set_xscale('log', base=2)
    axis.set_xticks(EDGES, [f'{edge:g}' if edge >= 1 else f'1/{1 / edge:g}' for edge in EDGES])
    axis.set_yticks(range(0, 101, 20))
    axis.set_ylim(0, 140)  # the legend has the room above 100
    axis.set_ylabel('%')
    axis.set_xlabel(f'retrieval probability of a {item} over all queries (1 = fair share)')
    axis.set_title(f'{query} to {item}: errors of the raw scores')
    axis.legend(frameon=False, loc='upper left')


if __name__ == '__main__':
    main()
