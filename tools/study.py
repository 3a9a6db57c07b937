"""Make a study: its trainings in order or side by side, then their table with intervals.

    python tools/study.py FILE --seeds 0 1 2 --control ROW     # a file of yours (docs/studies.md)
    python tools/study.py dvtr_tab13                           # a paper's ablation, of --list
    python tools/study.py dvtr_tab13 --only 'tau 0.05' 'tau 0.07'
    python tools/study.py dvtr_tab13 --dry                     # only print the commands
    python tools/study.py FILE --devices 0 1 2 3               # a row on each GPU
    python tools/study.py FILE --srun='-p gpu --gres=gpu:1' --jobs 8
    python tools/study.py FILE --table --control ROW           # of finished rows

Finished rows are kept, and a killed training resumes where it stopped: give the same command again.
Configs and options of all wanted rows are checked before the first training.  Tables, differences
and a picture are in WORK.
"""

from __future__ import annotations

import argparse
import shlex
import warnings
from pathlib import Path

from mmvtr.cli.start import tool

from mmvtr.cli import Parser, count


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('study', nargs='?', help='name or file of a study')
    add('--list', action='store_true', help='print the names of all studies of the papers')
    add('--only', nargs='+', metavar='ROW', help='names of some of its rows')
    add('--seeds', type=int, nargs='+', default=[0], help='a training each (default: 0)')
    add('--work', type=Path, metavar='DIR', help='default: work_dirs/studies/<name>')
    add('--config', help='train this config in place of all of the study')
    add(
        '--control',
        metavar='ROW',
        help='end in the paired differences of all other rows to this one, at the best and the '
        'last epoch, with intervals over seeds and queries',
    )
    add(
        '--within',
        type=float,
        metavar='POINTS',
        help='with --control: a difference that does not matter; equivalence within it is tested',
    )
    add(
        '--devices',
        nargs='+',
        metavar='N',
        help='GPUs, a row on each at the same time: 0 1 2; with --gpus several for a row: 0,1 2,3',
    )
    add('--jobs', type=count, help='rows made at the same time (default: 1, or one per device)')
    add('--srun', metavar='OPTIONS', help="start each command by Slurm's srun with these options")
    add(
        '--gpus',
        type=count,
        default=1,
        help="processes of a training, which share the config's batch (default: 1, no launcher)",
    )
    add(
        '--best-on-test',
        action='store_true',
        help='each training tests every epoch and reports the best one, as papers do',
    )
    parser.add_amp('train and test')
    add('--dry', action='store_true', help='print the commands, run nothing')
    add('--table', action='store_true', help='the tables of what is done, run nothing')
    parser.add_cfg_options(' of every row')
    args = parser.parse_args()
    if not args.study and not args.list:
        parser.error('name a study, or --list')
    if args.within is not None and (args.control is None or not args.within > 0):
        parser.error('--within: a number above 0, with --control')
    if args.devices and args.jobs:
        parser.error('--jobs: as many rows as --devices names are made at the same time')
    return args


@tool
def main() -> None:
    args = parse_args()
    # mmengine reads the packages of configs by it, each time anew.
    warnings.filterwarnings('ignore', 'pkg_resources is deprecated', UserWarning)
    from mmvtr.studies import reading, running, tables  # imports torch

    if args.list:
        for name in reading.study_names():
            study = reading.read_study(name)
            print(f'{name:22} {study.title} ({len(study.rows)} rows)')
        return
    study = reading.read_study(args.study, config=args.config, options=args.cfg_options)
    names = [row.name for row in study.rows] if args.only is None else args.only
    rows = reading.needed_by(study, [*names, *([args.control] if args.control else [])])
    plan = running.Plan(
        args.work or Path('work_dirs/studies') / study.name,
        args.seeds,
        args.devices or [None] * (args.jobs or 1),
        processes=args.gpus,
        srun=None if args.srun is None else shlex.split(args.srun),
        best_on_test=args.best_on_test,
        amp=args.amp,
        last=args.control is not None,
    )
    failed = {}
    if not args.table:
        reading.check_study(study, rows)
        if args.dry:
            for command in running.commands(study, rows, plan):
                print(shlex.join(command))
            return
        running.check_data(rows)
        failed = running.make(study, rows, plan)
    shown = tables.report(study, args.seeds, plan.work, control=args.control, margin=args.within)
    print(f'\n{shown}\n\n{plan.work / "table.md"}')
    if failed:
        lines = [f'{name}: {error}' for name, error in failed.items()]
        raise SystemExit('\n'.join([f'error: {len(failed)} rows are not finished', *lines]))


if __name__ == '__main__':
    main()
