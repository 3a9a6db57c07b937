"""The tables and the picture of trainings that people have judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

from interval_marks import interval

from mmvtr.visualization import canvas

LEVELS = {
    't2v_R1': 't2v R@1',
    't2v_P1': 'P@1',
    't2v_AP': 'AP of EXTRA',
    'v2t_R1': 'v2t R@1',
    'v2t_P1': 'P@1',
    'v2t_AP': 'AP of EXTRA',
    'AUC': 'AUC of the scores',
}
RUN = ('batch', 'steps', 'method')
GAINS = {'both_R1': 'R@1', 'both_P1': 'P@1', 'both_AP': 'AP of EXTRA'}


#: By key of the content.
SEEDS = dict(rows='seeds 0 to 2', confirmation='seeds 3 to 7 alone, for confirmation')


def tables(content: Mapping[str, Any]) -> str:
    """Markdown: levels by batch size, and differences to InfoNCE with 95 % intervals."""
    return '\n'.join(line for key in SEEDS for line in _tables(content[key], SEEDS[key]))


def _tables(rows: Sequence[Mapping[str, Any]], seeds: str) -> list[str]:
    lines = [f'Levels, mean +- standard deviation; {seeds}.', '']
    lines += _head([*RUN, 'seeds', 'best epochs', *LEVELS.values()])
    for row in rows:
        level = [f'{mean:.1f} +- {spread:.1f}' for mean, spread in map(row['level'].get, LEVELS)]
        epochs = ', '.join(map(str, row['best_epochs']))
        cells = [*map(row.get, RUN), len(row['seeds']), epochs, *level]
        lines.append(f'| {" | ".join(map(str, cells))} |')
    lines += ['', f'Minus InfoNCE of the same batch, steps and seeds; {seeds}.', '']
    keys = [*GAINS, *[*LEVELS][:6]]
    lines += _head([*RUN, *GAINS.values(), *(LEVELS[key] for key in [*LEVELS][:6])])
    for row in rows:
        if 'minus_infonce' in row:
            gains = [_interval(row['minus_infonce'][key]) for key in keys]
            lines.append(f'| {" | ".join([*map(str, map(row.get, RUN)), *gains])} |')
    return [*lines, '']


def transfer_tables(content: Mapping[str, Any]) -> str:
    """Markdown of judged_transfer.py's content: levels, and differences to InfoNCE."""
    keys = [*LEVELS][:6]
    lines = [f'Batch {content["batch"]:,}. Levels, mean +- standard deviation over the seeds.', '']
    lines += _head(['method', 'seeds', *(LEVELS[key] for key in keys)])
    for row in content['rows']:
        level = [f'{mean:.1f} +- {spread:.1f}' for mean, spread in map(row['level'].get, keys)]
        lines.append(f'| {" | ".join([row["method"], _span(row), *level])} |')
    lines += ['', 'Minus InfoNCE of the same seeds; both directions, and each.', '']
    lines += _head(['method', 'seeds', *GAINS.values(), *(LEVELS[key] for key in keys)])
    for row in content['rows']:
        if 'minus_infonce' in row:
            gains = [_interval(row['minus_infonce'][key]) for key in (*GAINS, *keys)]
            lines.append(f'| {" | ".join([row["method"], _span(row), *gains])} |')
    return '\n'.join(lines) + '\n'


def _span(row: Mapping[str, Any]) -> str:
    return f'{row["seeds"][0]} to {row["seeds"][-1]}'


def _head(columns: Sequence[str]) -> list[str]:
    return ['| ' + ' | '.join(columns) + ' |', '|---' * len(columns) + '|']


def _interval(numbers: Sequence[float]) -> str:
    mean, low, high = numbers
    return f'{mean:+.1f} [{low:+.1f}, {high:+.1f}]'


def picture(path: Path, content: Mapping[str, Any]) -> None:
    """A panel a measure: each method's differences to InfoNCE, with their intervals."""
    points = [
        (row['method'], (row['batch'], row['steps'], key), row['minus_infonce'])
        for key in SEEDS
        for row in content[key]
        if 'minus_infonce' in row
    ]
    shown = {method for method, _, _ in points}
    methods = [method for method in content['methods'] if method in shown]
    kinds = sorted({kind for _, kind, _ in points}, key=lambda x: (x[2] != 'rows', x))
    points.sort(key=lambda point: (methods.index(point[0]), kinds.index(point[1])))
    # a line each, and room between methods
    places = [n + 0.8 * methods.index(method) for n, (method, _, _) in enumerate(points)]
    figure = canvas.new_figure(1.5 + 0.2 * (len(points) + len(methods)), width=11)
    panels = canvas.side_by_side(figure, GAINS.items(), sharey=True)
    for axis, (key, title) in panels:
        handles = {}
        for y, (_, kind, gains) in zip(places, points):
            batch, steps, seeds = kind
            looks = canvas.COLOURS[kinds.index(kind)], 'o' if seeds == 'rows' else 'D'
            label = f'batch {batch:,}, {steps} steps' + ', confirmation' * (seeds != 'rows')
            handles[kind] = interval(axis, y, gains[key], looks, label=label)
        axis.axvline(0, color='0.6', linewidth=0.8)
        axis.set_title(title)
        axis.set_xlabel('points above InfoNCE')
    middles = [[y for y, (method, _, _) in zip(places, points) if method == one] for one in methods]
    first = panels[0][0]
    first.set_yticks([sum(own) / len(own) for own in middles], methods)
    first.invert_yaxis()
    canvas.legend(figure, 3, handles=[handles[kind] for kind in kinds])
    canvas.save(figure, path)
