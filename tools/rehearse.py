"""Train a config on simulated tower outputs, and see whether it does what its paper says.

    python tools/rehearse.py CONFIG [--steps N] [--minutes M] [--out DIR] [--cfg-options ...]
    python tools/rehearse.py --all [--jobs 2] [--minutes M] [--out DIR] [--page FILE]

(a) a few steps at full width and batch; (b) the config's own schedule, rates and number of steps,
on narrow tokens.  No dataset, no pretrained weights and no GPU are needed.  Exit status 1 where an
expectation is not met, 2 where a config cannot be rehearsed, 3 where the rehearsal crashed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mmengine.config import Config

from mmvtr.command_line import Parser, tool
from mmvtr.reasons import reason

ROOT = Path(__file__).resolve().parents[1]
#: Exit status of a rehearsal, in words.
STATUS = ('met', 'NOT MET', 'cannot be rehearsed', 'crashed')


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', nargs='?', help='config file of a real training')
    add('--all', action='store_true', help='every config under configs/ that is not planted')
    add('--steps', type=int, help='stop (b) after so many steps of the own schedule')
    add('--minutes', type=float, default=5.0, help='stop (b) after so much CPU time (default: 5)')
    add('--jobs', type=int, default=2, help='of --all, one thread each (default: 2)')
    add(
        '--out',
        type=Path,
        default=Path('work_dirs/rehearsal'),
        help='for json and png (default: work_dirs/rehearsal)',
    )
    add('--page', type=Path, help='with --all: write the table of all results here')
    add('--only-page', action='store_true', help='with --page: train nothing')
    parser.add_cfg_options()
    args = parser.parse_args()
    if args.all == (args.config is not None):
        parser.error('give a CONFIG or --all')
    if args.only_page and not (args.all and args.page):
        parser.error('--only-page needs --all and --page')
    if args.steps is not None and args.steps < 1:
        parser.error(f'--steps must be at least 1, not {args.steps}')
    return args


@tool
def main() -> None:
    args = parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    sys.exit(rehearse_all(args) if args.all else rehearse_one(args))


def rehearse_one(args: argparse.Namespace) -> int:
    """A place in :data:`STATUS`; writes ``NAME.json`` and ``NAME.png``."""
    from mmvtr.rehearsal.simulated_model import Unknown
    from mmvtr.utils import load_config

    try:
        cfg = load_config(args.config, args.cfg_options)
    except SystemExit as error:  # whose own status would be that of an expectation
        print(error, file=sys.stderr)
        return 2
    try:
        return int(not _met(args, cfg))
    except FloatingPointError as error:
        print(f'NOT MET      finite losses: {error}')
        return 1
    except Unknown as error:
        print(f'error: {args.config}: {error}', file=sys.stderr)
        return 2
    except Exception as error:
        said = reason(error)
        if said is None:
            traceback.print_exc()
            return 3
        print(f'error: {args.config}: {said}', file=sys.stderr)
        return 2


def _met(args: argparse.Namespace, cfg: Config) -> bool:
    """Whether no expectation fails."""
    import torch

    from mmvtr.rehearsal.pictures import draw
    from mmvtr.rehearsal.report import fingerprint, summary, table
    from mmvtr.rehearsal.run import rehearse_config

    torch.set_num_threads(1)
    name = Path(args.config).stem
    result = rehearse_config(cfg, steps=args.steps, minutes=args.minutes)
    result.update(config=name, sha=fingerprint(cfg))
    part = args.out / f'{name}.json.part'
    part.write_text(json.dumps(summary(result), indent=1) + '\n')
    draw(args.out / f'{name}.png', name, result['narrow'], result['checks'])
    os.replace(part, args.out / f'{name}.json')
    print(table(result))
    return all(one.passed is not False for one in result['checks'])


def rehearse_all(args: argparse.Namespace) -> int:
    """Each config in a process of its own; what is done is not done again."""
    from mmvtr.rehearsal.report import is_current, page

    left_out = ('planted', 'captions', 'zeroshot')  # the last do not train, the others for real
    configs = [
        path
        for path in sorted((ROOT / 'configs').glob('*.py'))
        if not any(word in path.stem for word in left_out)
    ]
    todo = [
        path
        for path in configs
        if not args.only_page
        and not is_current(args.out / f'{path.stem}.json', path, minutes=args.minutes)
    ]
    print(f'{len(todo)} of {len(configs)} configs are to be rehearsed', flush=True)
    codes = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for path, code in zip(todo, pool.map(lambda p: _run(p, args), todo)):
            codes.append(code)
            where = f', see {_log(path, args)}' if code else ''
            print(f'{path.stem}: {STATUS[code]}{where}', flush=True)
    there = {p.stem: args.out / f'{p.stem}.json' for p in configs}
    results = [json.loads(path.read_text()) for path in there.values() if path.exists()]
    missing = [name for name, path in there.items() if not path.exists()]
    failed = sum(c[1] is False for r in results for c in r['checks']) + len(missing)
    if args.page:
        drawn = sorted(p for p in args.out.glob('*.png') if p.stem in there)
        beside = [os.path.relpath(p, args.page.parent) for p in drawn]
        args.page.write_text(page(results, missing, beside))
    return int(failed > 0 or any(codes))


def _log(path: Path, args: argparse.Namespace) -> Path:
    """What the rehearsal of a config says."""
    return args.out / f'{path.stem}.log'


def _run(path: Path, args: argparse.Namespace) -> int:
    """A place in :data:`STATUS`; that of a killed process is a crash."""
    command = [sys.executable, __file__, str(path), '--out', str(args.out)]
    command += ['--minutes', str(args.minutes)]
    command += ['--steps', str(args.steps)] if args.steps else []
    env = {**os.environ, 'OMP_NUM_THREADS': '1'}
    with open(_log(path, args), 'w') as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=env)
    return done.returncode if 0 <= done.returncode < len(STATUS) else STATUS.index('crashed')


if __name__ == '__main__':
    main()
