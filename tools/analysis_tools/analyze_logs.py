"""Draw curves of several runs, and print where their logs differ.

    python tools/analysis_tools/analyze_logs.py work_dirs/a work_dirs/b --keys loss --out curves.png

A run is a training's work_dir (its newest scalars.json is read), or such a file.  Without --keys
the table has all numbers that every run has logged: the last value and, for metrics, the best.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import NamedTuple, Sequence

from mmvtr.cli.start import tool

from mmvtr.cli import Parser, output_file
from mmvtr.visualization import canvas


class Run(NamedTuple):
    """The logged numbers of a training.

    Attributes:
        name: name of its folder.
        curves: steps and numbers by key.
    """

    name: str
    curves: dict[str, tuple[list[int], list[float]]]


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('runs', nargs='+', metavar='RUN', help='folder of a training, or its scalars.json')
    add('--keys', nargs='+', metavar='KEY', help='loss, retrieval/rsum, ... (default: all)')
    add('--out', type=output_file, metavar='FILE', help='a picture of the curves of --keys')
    return parser.parse_args()


def read_run(path: Path) -> Run:
    """Return the curves of a run.

    Raises:
        SystemExit: there is no scalars.json, or a line of it is no JSON.
    """
    files = [path] if path.is_file() else sorted(path.glob('*/vis_data/scalars.json'))
    if not files:
        raise SystemExit(f'error: {path} has no */vis_data/scalars.json: no training wrote there')
    curves: dict[str, tuple[list[int], list[float]]] = {}
    for number, line in enumerate(files[-1].read_text().splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError:
            raise SystemExit(f'error: {files[-1]}, line {number}: not JSON') from None
        step = row.get('step', number)
        for key, value in row.items():
            if isinstance(value, (int, float)) and key not in ('step', 'iter', 'epoch'):
                steps, values = curves.setdefault(key, ([], []))
                steps.append(step)
                values.append(value)
    name = path.name if path.is_dir() else files[-1].parents[2].name
    return Run(name, curves)


def chosen_keys(runs: Sequence[Run], keys: Sequence[str]) -> list[str]:
    """Return the requested keys, or all keys that every run has.

    Raises:
        SystemExit: a run has not logged a key; names those that it has.
    """
    shared = sorted(set.intersection(*(set(run.curves) for run in runs)))
    for run in runs:
        for key in keys or ():
            if key not in run.curves:
                names = ', '.join(sorted(run.curves))
                raise SystemExit(f'error: {run.name} has not logged {key!r}; it has {names}')
    return list(keys or shared)


def table(runs: Sequence[Run], keys: Sequence[str]) -> str:
    """Return a row for each key: the last number of each run and, for metrics, the highest."""
    lines = [['', *(run.name for run in runs)]]
    for key in keys:
        last = [run.curves[key][1][-1] for run in runs]
        lines.append([key, *(f'{value:.4g}' for value in last)])
        if '/' in key:
            best = [max(run.curves[key][1]) for run in runs]
            lines.append([f'{key}, highest', *(f'{value:.4g}' for value in best)])
    widths = [max(map(len, column)) for column in zip(*lines)]
    return '\n'.join('  '.join(map(str.ljust, line, widths)).rstrip() for line in lines)


def picture(runs: Sequence[Run], keys: Sequence[str]) -> canvas.Figure:
    """Return a figure with an axis for each key and a line for each run."""
    figure = canvas.new_figure(2.6 * len(keys))
    for axis, key in zip(figure.subplots(len(keys), 1, squeeze=False)[:, 0], keys):
        canvas.style(axis, key, 'step', '')
        for number, run in enumerate(runs):
            steps, values = run.curves[key]
            colour = canvas.COLOURS[number % len(canvas.COLOURS)]
            axis.plot(steps, values, color=colour, marker='o', markersize=3, label=run.name)
        axis.legend(fontsize=8)
    return figure


@tool
def main() -> None:
    args = parse_args()
    runs = [read_run(Path(run)) for run in args.runs]
    keys = chosen_keys(runs, args.keys)
    print(table(runs, keys))
    if args.out:
        if not args.keys:
            raise SystemExit('error: --out needs --keys: the curves to draw')
        canvas.save(picture(runs, keys), args.out)
        print(f'curves: {args.out}')


if __name__ == '__main__':
    main()
