"""Draw the papers' figures for any config: planted, real or your own data (docs/papers.md).

    python projects/lab/figures.py CONFIG CHECKPOINT --figure dvtr4 dvtr5 --out DIR
    python projects/lab/figures.py CONFIG CHECKPOINT --figure dvtr3 ncl6 --out DIR \\
        --against OTHER_CONFIG OTHER_CHECKPOINT
    python projects/lab/figures.py CONFIG CHECKPOINT --figure ncl8 --against as-built ...
    python projects/lab/figures.py CONFIG epoch_1.pth epoch_2.pth --figure uatvr3 --out DIR
    python projects/lab/figures.py --list

Each model is tested once, as by tools/test.py, and all figures are drawn from that.  A figure that
the model cannot provide is reported with the reason, and the others are drawn.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Optional

from mmvtr.cli.start import tool

from mmvtr.cli import Parser, count, output_folder
from mmvtr.utils import load_config

#: Stands for a checkpoint: the model as its config builds it, pretrained or random.
AS_BUILT = 'as-built'


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', nargs='?', help='config file')
    add('checkpoint', nargs='*', help='weights of the whole model; several: epochs of one training')
    add('--figure', nargs='+', metavar='NAME', help='see --list')
    add('--list', action='store_true', help='print all figures and what each needs')
    add('--out', type=output_folder, metavar='DIR', help='for the pictures, made if need be')
    add(
        '--against',
        nargs='+',
        metavar='WHAT',
        help='what to compare with: [CONFIG] CHECKPOINT, or [CONFIG] as-built',
    )
    add('--split', choices=('train', 'val', 'test'), default='test', help='default: test')
    add('--queries', nargs='+', metavar='ID', help='ids of texts, or how many to draw (default: 3)')
    add('--top', type=count, help="hits of a query (default: the figure's own)")
    add('--seed', type=int, default=0, help='of the draws (default: 0)')
    add(
        '--method',
        choices=('pca', 'tsne'),
        default='pca',
        help='of ncl7 (default: pca; tsne needs scikit-learn)',
    )
    add('--names', nargs='+', metavar='NAME', help='of the model, and of what it is compared with')
    add('--random-weights', action='store_true', help='as-built may be a model of random weights')
    add('--work-dir', help='for the logs; default work_dirs/<config name>')
    parser.add_cfg_options(', of the config that is compared with as well')
    args = parser.parse_args()
    if not args.list:
        for name in ('config', 'figure', 'out'):
            if not getattr(args, name):
                parser.error(f'{name} is missing')
    return args


@tool
def main() -> None:
    args = parse_args()
    # Import here what takes seconds.
    from paper_figures import FIGURES

    if args.list:
        for name, figure in FIGURES.items():
            print(f'{name:9} {figure.paper}: {figure.shows}\n{"":9}   needs: {figure.needs}')
        return
    unknown = [name for name in args.figure if name not in FIGURES]
    if unknown:
        raise SystemExit(f'error: no figure {unknown[0]!r:.80}; some of: {", ".join(FIGURES)}')
    drawn = draw(args)
    if not drawn:
        raise SystemExit('error: nothing was drawn')


def draw(args: argparse.Namespace) -> int:
    """Draw the requested figures; return the number of those that could be drawn."""
    from mmvtr.engine.hooks.tested_model import drawn
    from mmvtr.visualization import save
    from paper_figures import FIGURES

    figures = [FIGURES[name] for name in dict.fromkeys(args.figure)]
    request = ask(args, not all(one.by_tool for one in figures))
    args.out.mkdir(parents=True, exist_ok=True)
    refused = []
    for name, picture in drawn(figures, request, lambda *why: refused.append(why)):
        save(picture, args.out / f'{name}.png')
        print(args.out / f'{name}.png')
    if request.notes:
        print('\n'.join(request.notes))
    for one, error in refused:
        print(f'{one.name} ({one.paper}) is left out: {error}', file=sys.stderr)
    return len(figures) - len(refused)


def queries_of(given: Optional[list[str]]) -> Any:
    """Return ids of texts, or a number of them.

    Raises:
        ValueError: no ids, or a number that is too large.
    """
    from mmvtr.engine.hooks.pictures_hook import checked_queries

    if given is None:
        return 3
    number = len(given) == 1 and given[0].isdigit() and len(given[0]) <= 2
    return checked_queries(int(given[0])) if number else given


def ask(args: argparse.Namespace, of_models: bool) -> Any:
    """Return the request of the figures, with all models on the command line tested.

    Args:
        args: the command line's arguments.
        of_models: whether a figure needs models; a tool with its own command line does not.

    Raises:
        ValueError: two models cannot be compared; see ``study``.
    """
    from paper_figures import FigureRequest

    queries = queries_of(args.queries)
    models, against = tested_models(args) if of_models else ([], None)
    written = [f'{key}={value}' for key, value in args.cfg_options.items()]
    return FigureRequest(
        models,
        against,
        queries,
        args.top,
        args.seed,
        args.method,
        args.out,
        notes=[],
        cfg=load_config(args.config, args.cfg_options, args.work_dir),
        line=[args.config, *args.checkpoint[-1:]],
        options=['--cfg-options', *written] if written else [],
    )


def tested_models(args: argparse.Namespace) -> tuple[list[Any], Any]:
    """Return the config's models, one per checkpoint, and the model to compare with, if given."""
    from mmvtr.engine.checks.config_checks import check_config
    from mmvtr.engine.loops.facts import differing
    from paper_figures import study

    def one(config: str, checkpoint: Optional[str], name: Optional[str] = None) -> Any:
        cfg = load_config(config, args.cfg_options, args.work_dir)
        if cfg.get('test_dataloader') is None:
            raise ValueError(f'{config} has no test_dataloader')
        check_config(cfg, args.cfg_options, training=False)
        made = study(cfg, checkpoint, split=args.split, random=args.random_weights)
        return made if name is None else made._replace(name=name)

    given = args.names or []
    stem = Path(args.config).stem
    checkpoints = [None if x == AS_BUILT else x for x in args.checkpoint] or [None]
    single = given[0] if given else stem
    names = [single] if len(checkpoints) == 1 else [None] * len(checkpoints)
    models = [one(args.config, x, name) for x, name in zip(checkpoints, names)]
    against = None
    if args.against:
        if len(args.against) > 2:
            raise ValueError(f'--against [CONFIG] CHECKPOINT, not {len(args.against)} words')
        config, weights = ([args.config] + args.against)[-2:]
        name = given[1] if len(given) > 1 else Path(config).stem
        if len(given) < 2 and name == single:
            name = f'{name}, {"as built" if weights == AS_BUILT else Path(weights).stem}'
        against = one(config, None if weights == AS_BUILT else weights, name)
        refuse_other_set(models[-1], against)
        both = [[one.as_dict() for one in made.trainings] for made in (models[-1], against)]
        for line in differing(*both, (models[-1].name, against.name)):
            print(line)
    return models, against


def refuse_other_set(model: Any, against: Any) -> None:
    """Raise ValueError if two models were tested on different texts or videos."""
    for kind in ('texts', 'videos'):
        ids = [getattr(one.evaluation, kind).ids for one in (model, against)]
        if ids[0] != ids[1]:
            raise ValueError(
                f'{model.name} and {against.name} were tested on different {kind}: '
                f'{len(ids[0]):,} and {len(ids[1]):,} ({ids[0][:1]!r:.60}, {ids[1][:1]!r:.60} ...)'
            )


if __name__ == '__main__':
    main()
