"""Run a paper's ablation as one command: its trainings one after the other, then their table.

    python projects/lab/sweep.py dvtr_tab13                        # a name of --list, or a file
    python projects/lab/sweep.py dvtr_tab13 --only 'tau .05' 'tau .07' --seeds 0 1 2
    python projects/lab/sweep.py dvtr_tab13 --dry    # only print the commands
    python projects/lab/sweep.py dvtr_tab13 --config dvtr_c2v_planted_features
    python projects/lab/sweep.py ncl_tab5 --best-on-test --amp bf16 --gpus 8
    python projects/lab/sweep.py dvtr_tab13 --table                # of finished runs
    python projects/lab/sweep.py --list

Finished runs are skipped, and a killed training resumes where it stopped.  Results are in
WORK/table.md and WORK/results.json.  All options are checked before the first training.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator, Optional

from mmvtr.cli import Parser, tool
from mmvtr.evaluation.results import Results, results_from
from mmvtr.storage import write_text
from mmvtr.utils import load_config, tool_folder
from sweeps import (
    Run,
    Sweep,
    batch_per_process,
    check_sweep,
    checkpoint_name,
    heading,
    needed_by,
    read_sweep,
    row_of,
    source_of,
    sweep_names,
    table,
    with_folders,
)

#: Config key of the batch size per process.
BATCH = 'train_dataloader.batch_size'


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('sweep', nargs='?', help='name or file of a sweep')
    add('--list', action='store_true', help='print all sweeps and where they are printed')
    add('--only', nargs='+', metavar='RUN', help='names of some of its runs')
    add('--seeds', type=int, nargs='+', default=[0], help='a training each (default: 0)')
    add('--work', type=Path, metavar='DIR', help='default: work_dirs/sweeps/<name>')
    add('--config', help='train this config in place of all of the sweep')
    add(
        '--gpus',
        type=int,
        default=0,
        help="processes of a training, which share the config's batch; default: one, no launcher",
    )
    add(
        '--best-on-test',
        action='store_true',
        help='each training tests every epoch and reports the best one, as papers do',
    )
    parser.add_amp('train and test')
    add('--dry', action='store_true', help='print the commands, run nothing')
    add('--table', action='store_true', help='the table of what is done, run nothing')
    parser.add_cfg_options(' of every run')
    args = parser.parse_args()
    if not args.sweep and not args.list:
        parser.error('name a sweep, or --list')
    return args


@tool
def main() -> None:
    args = parse_args()
    if args.list:
        for name in sweep_names():
            sweep = read_sweep(name)
            where = f'{sweep.paper} {sweep.table}, Sec. {sweep.section}'
            print(f'{name:22} {where}: {sweep.about} ({len(sweep.runs)} runs)')
        return
    sweep = read_sweep(args.sweep, config=args.config, options=args.cfg_options)
    chosen = choose(sweep, args.only)
    work = args.work or Path('work_dirs/sweeps') / sweep.name
    if not args.table:
        check_sweep(sweep)
        for run in chosen:
            for seed in args.seeds:
                carry_out(sweep, run, seed, work, args)
    if not args.dry:
        report(sweep, args.seeds, work)


def choose(sweep: Sweep, only: Optional[list[str]]) -> list[Run]:
    """Return the requested runs, and those whose checkpoints they need.

    Raises:
        ValueError: an unknown name.
    """
    if only is None:
        return list(sweep.runs)
    known = {run.name: run for run in sweep.runs}
    unknown = [name for name in only if name not in known]
    if unknown:
        raise ValueError(f'{sweep.name} has no run {unknown[0]!r:.80}; it has {", ".join(known)}')
    needed = needed_by(sweep, only)
    return [run for run in sweep.runs if run.name in needed]


def carry_out(sweep: Sweep, run: Run, seed: int, work: Path, args: argparse.Namespace) -> None:
    """Train a run, or test the runs that it is ``of``, unless that is done.

    Raises:
        SystemExit: the command failed; says where its log is.
    """
    from mmvtr.engine.against import results_of

    folder = place(work, run, seed)
    if source_of(sweep, run) is not run:
        return  # another run's results by other keys
    if not args.dry:
        check_asked(folder, run, args)
        if (folder / 'results.json').is_file():
            return
    command = command_of(sweep, run, seed, work, args)
    if args.dry:
        print(shlex.join(map(str, command)))
        return
    print(f'{sweep.name}: {run.name}, seed {seed}: {shlex.join(map(str, command))}', flush=True)
    save(asked(run, args), folder / 'asked.json')
    log = folder / 'printed.txt'
    code = call(list(map(str, command)), log)
    if code:
        said = log.read_text()[-300:]
        raise SystemExit(
            f'error: {run.name}, seed {seed} ended with {code}: {said}\n'
            f'all of it: {log}; the same command goes on'
        )
    if not run.of:
        save(results_of(folder).as_dict(), folder / 'results.json')


def asked(run: Run, args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that determine a run's results, besides its seed."""
    return dict(
        config=run.config,
        options=run.written(),
        best_on_test=args.best_on_test,
        amp=args.amp,
    )


def check_asked(folder: Path, run: Run, args: argparse.Namespace) -> None:
    """Check that the results in a folder were made with the current settings.

    Raises:
        SystemExit: they were not; names what differs.
    """
    file = folder / 'asked.json'
    if not file.is_file():
        return
    before, now = json.loads(file.read_text()), asked(run, args)
    for key, value in now.items():
        if before.get(key) != value:
            raise SystemExit(
                f'error: {folder} was made with {key} = {before.get(key)!r:.200}, not '
                f'{value!r:.200}: one table has one protocol; give another folder, --work DIR'
            )


def save(content: Any, path: Path) -> None:
    write_text(path, json.dumps(content, indent=1) + '\n')


def call(command: list[str], log: Path) -> int:
    """Run a command with its output appended to a file; return its exit code."""
    environment = {**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, sys.path))}
    with open(log, 'a') as printed:
        return subprocess.run(
            command, stdout=printed, stderr=subprocess.STDOUT, env=environment
        ).returncode


def command_of(
    sweep: Sweep, run: Run, seed: int, work: Path, args: argparse.Namespace
) -> list[Any]:
    """Return the command line of a run."""
    folder, tools = place(work, run, seed), tool_folder()
    run = with_folders(run, {one.name: str(place(work, one, seed)) for one in sweep.runs})
    written = run.written()
    amp = ['--amp', args.amp] if args.amp else []
    if run.of:
        found = [checkpoint(sweep, name, seed, work, args) for name in run.of]
        test = [sys.executable, tools / 'test.py', run.config, *found, '--work-dir', folder]
        return [*test, '--out', folder / 'results.json', *amp, *cfg_options(written)]
    script = [sys.executable, tools / 'train.py', run.config]
    if args.gpus > 1:
        script = ['bash', tools / 'dist_train.sh', run.config, args.gpus]
        written += share_of_batch(run, args.gpus)
    chosen = ['--best-on-test'] if args.best_on_test else []
    command = [*script, '--work-dir', folder, '--seed', seed + run.seeds, '--resume']
    return [*command, *chosen, *amp, *cfg_options(written)]


def cfg_options(written: list[str]) -> list[str]:
    return ['--cfg-options', *written] if written else []


def share_of_batch(run: Run, processes: int) -> list[str]:
    """Return the option that sets each process's batch, unless the run's options set it."""
    if BATCH in run.options:
        return []
    share = batch_per_process(load_config(run.config, run.options), processes)
    return [] if share is None else [f'{BATCH}={share}']


def place(work: Path, run: Run, seed: int) -> Path:
    return work / f'{run.folder}_{seed}'


def checkpoint(sweep: Sweep, name: str, seed: int, work: Path, args: argparse.Namespace) -> Path:
    """Return the chosen checkpoint of a run: the best on val, else the last.

    Raises:
        SystemExit: there is no checkpoint.
    """
    run = next(run for run in sweep.runs if run.name == name)
    folder = place(work, run, seed)
    for best in (folder / 'best.pth', *sorted(folder.glob('best_*.pth'))):  # of older versions
        if best.is_file():
            return best
    last = folder / 'last_checkpoint'
    if last.is_file():
        return folder / Path(last.read_text().strip()).name
    if args.dry:
        return folder / checkpoint_name(run, best_on_test=args.best_on_test)
    raise SystemExit(f'error: {folder} has no checkpoint of {name!r:.80}: its training comes first')


def report(sweep: Sweep, seeds: list[int], work: Path) -> None:
    """Print the table of finished runs, and write it."""
    results = {run.name: list(found(sweep, run, seeds, work)) for run in sweep.runs}
    rows = {
        run.name: [row_of(run, one.numbers, sweep.metrics) for one in results[run.name]]
        for run in sweep.runs
    }
    rows = {name: [row for row in own if row] for name, own in rows.items()}
    firsts = {name: own[0] for name, own in results.items() if own}
    shown = table(sweep, rows, heading(firsts))
    write_text(work / 'table.md', shown + '\n')
    save(dict(sweep=sweep.name, seeds=seeds, rows=rows), work / 'results.json')
    print(f'\n{shown}\n\n{work / "table.md"}')


def found(sweep: Sweep, run: Run, seeds: list[int], work: Path) -> Iterator[Results]:
    """Yield the results of a run, one for each finished seed."""
    source = source_of(sweep, run)
    for seed in seeds:
        file = place(work, source, seed) / 'results.json'
        if file.is_file():
            yield results_from(json.loads(file.read_text()), str(file))


if __name__ == '__main__':
    main()
