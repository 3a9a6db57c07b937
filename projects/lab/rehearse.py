"""Train a config on simulated tower outputs, and check whether it does what its paper says.

    python projects/lab/rehearse.py CONFIG [--steps N] [--minutes M] [--items S] [--out DIR] [...]
    python projects/lab/rehearse.py --all [--jobs 2] [--minutes M] [--out DIR]
    python projects/lab/rehearse.py [CONFIG | --all] [--out DIR] --page FILE

The result is added as a line to ``DIR/results.jsonl``; for a single config a figure is drawn as
well. A page is made from all lines.

(a) a few steps at full width and batch; (b) the config's own schedule, rates and number of steps,
on narrow tokens.  No dataset, no pretrained weights and no GPU are needed.  Exit status 1 if an
expectation is not met, 2 if a config cannot be rehearsed, 3 if the rehearsal crashed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mmvtr.cli.start import tool

from mmengine.config import Config

from mmvtr.cli import Parser, count
from mmvtr.cli.errors import USER_ERRORS, message_of
from mmvtr.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
#: Exit statuses of a rehearsal, in words.
STATUS = ('met', 'NOT MET', 'cannot be rehearsed', 'crashed')


def share(text: str) -> float:
    """Return a number above 0 and up to 1."""
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f'a share above 0 and up to 1, not {text}')
    return value


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', nargs='?', help='config file of a real training')
    add('--all', action='store_true', help='every config under configs/ that is not planted')
    add('--steps', type=count, help='stop (b) after so many steps of the own schedule')
    add('--minutes', type=float, default=5.0, help='stop (b) after so much CPU time (default: 5)')
    add(
        '--items',
        type=share,
        default=1.0,
        help='of (b): this share of the items at as many epochs, for fewer steps (default: 1)',
    )
    add('--jobs', type=count, default=2, help='of --all, one thread each (default: 2)')
    add(
        '--out',
        type=Path,
        default=Path('work_dirs/rehearsal'),
        help='folder of results.jsonl and of pictures (default: work_dirs/rehearsal)',
    )
    add('--page', type=Path, help='write the table of all results here; alone: train nothing')
    parser.add_cfg_options()
    args = parser.parse_args()
    if args.all and args.config is not None or not (args.all or args.config or args.page):
        parser.error('give a CONFIG or --all, or a --page to be written of what is there')
    return args


@tool
def main() -> None:
    args = parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    code = 0
    if args.all or args.config:
        code = rehearse_all(args) if args.all else rehearse_one(args)
    if args.page:
        write_page(args)
    sys.exit(code)


def rehearse_one(args: argparse.Namespace) -> int:
    """Rehearse one config, and write its results; return an index in :data:`STATUS`."""
    from mmvtr.utils import load_config
    from simulation.simulated_model import Unknown

    try:
        cfg = load_config(args.config, args.cfg_options)
    except UserError as error:  # its own status would mean an unmet expectation
        print(f'error: {error}', file=sys.stderr)
        return 2
    try:
        return int(not _met(args, cfg))
    except FloatingPointError as error:
        print(f'NOT MET      finite losses: {error}')
        return 1
    except Unknown as error:
        print(f'error: {args.config}: {error}', file=sys.stderr)
        return 2
    except USER_ERRORS as error:
        print(f'error: {args.config}: {message_of(error).sentence}', file=sys.stderr)
        return 2
    except Exception:
        traceback.print_exc()
        return 3


def _met(args: argparse.Namespace, cfg: Config) -> bool:
    """Rehearse a config; return whether no expectation fails."""
    import torch

    from rehearsal.components import components_of
    from rehearsal.pictures import draw
    from rehearsal.report import fingerprint, summary, table
    from rehearsal.run import rehearse_config

    torch.set_num_threads(1)
    name = Path(args.config).stem
    result = rehearse_config(cfg, steps=args.steps, minutes=args.minutes, items=args.items)
    result.update(config=name, sha=fingerprint(cfg), components=sorted(components_of(cfg)))
    keep(args.out, {name: summary(result)})
    draw(args.out / f'{name}.png', name, result['narrow'], result['checks'])
    print(table(result))
    return all(one.passed is not False for one in result['checks'])


def keep(folder: Path, new: dict[str, dict]) -> None:
    """Write results to the folder's file, replacing older ones of the same configs."""
    from rehearsal.report import RESULTS, read_results, write_results

    write_results(folder / RESULTS, {**read_results(folder / RESULTS), **new})


def configs() -> list[Path]:
    """Return the configs of real trainings, including variants, but not those of minutes."""
    left_out = ('planted', 'captions', 'zeroshot')
    found = sorted((ROOT / 'configs').rglob('*.py'), key=lambda path: path.stem)
    found = [path for path in found if path.parent.name not in ('_base_', 'studies')]
    return [path for path in found if not any(word in path.stem for word in left_out)]


def write_page(args: argparse.Namespace) -> None:
    from rehearsal.components import all_components, section
    from rehearsal.report import RESULTS, page, read_results

    results = read_results(args.out / RESULTS)
    missing = [path.stem for path in configs() if path.stem not in results]
    parts = section(all_components(configs()), results.values())
    args.page.write_text(page(results.values(), missing) + parts)


def rehearse_all(args: argparse.Namespace) -> int:
    """Run each outstanding config in its own process; skip results that are current.

    Return 1 if some config ends with a status other than 0, or has an unmet expectation.
    """
    from rehearsal.report import RESULTS, is_current, read_results

    before, all_of_them = read_results(args.out / RESULTS), configs()
    asked = dict(minutes=args.minutes, items=args.items)
    todo = [p for p in all_of_them if not is_current(before.get(p.stem), p, **asked)]
    print(f'{len(todo)} of {len(all_of_them)} configs are to be rehearsed', flush=True)
    codes = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for path, (code, found) in zip(todo, pool.map(lambda p: _run(p, args), todo)):
            codes.append(code)
            keep(args.out, found)
            where = f', see {_log(path, args)}' if code else ''
            print(f'{path.stem}: {STATUS[code]}{where}', flush=True)
    results = read_results(args.out / RESULTS)
    failed = [name for name, r in results.items() for c in r['checks'].values() if c[0] is False]
    return int(bool(failed) or any(codes))


def _log(path: Path, args: argparse.Namespace) -> Path:
    """Return the log file of a config's rehearsal."""
    return args.out / f'{path.stem}.log'


def _run(path: Path, args: argparse.Namespace) -> tuple[int, dict[str, dict]]:
    """Return an index in :data:`STATUS` (a killed process is a crash), and the result, if any."""
    from rehearsal.report import RESULTS, read_results

    env = {**os.environ, 'OMP_NUM_THREADS': '1'}
    with tempfile.TemporaryDirectory() as own, open(_log(path, args), 'w') as log:
        command = [sys.executable, __file__, str(path), '--out', own]
        command += ['--minutes', str(args.minutes), '--items', str(args.items)]
        command += ['--steps', str(args.steps)] if args.steps else []
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=env)
        found = read_results(Path(own) / RESULTS)
    known = 0 <= done.returncode < len(STATUS)
    return done.returncode if known else STATUS.index('crashed'), found


if __name__ == '__main__':
    main()
