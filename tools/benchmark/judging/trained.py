"""The tables and the picture of trainings that people have judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

LEVELS = {
    't2v_R1': 't2v R@1',
    't2v_P1': 'P@1',
    't2v_AP': 'AP of EXTRA',
    'v2t_R1': 'v2t R@1',
    'v2t_P1': 'P@1',
    'v2t_AP': 'AP of EXTRA',
    'AUC': 'AUC of the scores',
}
GAINS = {'both_R1': 'R@1', 'both_P1': 'P@1', 'both_AP': 'AP of EXTRA'}


def tables(content: Mapping[str, Any]) -> str:
    """Markdown: levels by batch size, and differences to InfoNCE with 95 % intervals."""
    lines = ['Levels, mean +- standard deviation over the seeds.', '']
    lines += _head(['batch', 'method', 'seeds', 'best epochs', *LEVELS.values()])
    for row in content['rows']:
        level = [f'{mean:.1f} +- {spread:.1f}' for mean, spread in map(row['level'].get, LEVELS)]
        epochs = ', '.join(map(str, row['best_epochs']))
        cells = [row['batch'], row['method'], len(row['seeds']), epochs, *level]
        lines.append(f'| {" | ".join(map(str, cells))} |')
    lines += ['', 'Minus InfoNCE of the same batch and seeds; both directions, and each.', '']
    columns = [*GAINS.values(), *(LEVELS[key] for key in [*LEVELS][:6])]
    lines += _head(['batch', 'method', *columns])
    for row in content['rows']:
        if 'minus_infonce' in row:
            gains = [_interval(row['minus_infonce'][key]) for key in (*GAINS, *[*LEVELS][:6])]
            lines.append(f'| {" | ".join([str(row["batch"]), row["method"], *gains])} |')
    return '\n'.join(lines) + '\n'


def _head(columns: list[str]) -> list[str]:
    return ['| ' + ' | '.join(columns) + ' |', '|---' * len(columns) + '|']


def _interval(numbers: list[float]) -> str:
    mean, low, high = numbers
    return f'{mean:+.1f} [{low:+.1f}, {high:+.1f}]'


def picture(path: Path, content: Mapping[str, Any]) -> None:
    """A panel a measure: each method's difference to InfoNCE by batch size, with its interval."""
    from matplotlib.figure import Figure

    rows = [row for row in content['rows'] if 'minus_infonce' in row]
    methods = [*dict.fromkeys(row['method'] for row in rows)]
    batches = sorted({row['batch'] for row in rows})
    figure = Figure(figsize=(11, 1.5 + 0.36 * len(methods)), layout='constrained')
    axes = figure.subplots(1, len(GAINS), sharey=True)
    for axis, (key, title) in zip(axes, GAINS.items()):
        for row in rows:
            mean, low, high = row['minus_infonce'][key]
            n = batches.index(row['batch'])
            y = methods.index(row['method']) + 0.7 * ((n + 0.5) / len(batches) - 0.5)
            axis.plot([low, high], [y, y], color=f'C{n}', linewidth=1.5)
            axis.plot(mean, y, 'o', color=f'C{n}', markersize=4)
        axis.axvline(0, color='0.6', linewidth=0.8)
        axis.set_title(title)
        axis.set_xlabel('points above InfoNCE')
    axes[0].set_yticks(range(len(methods)), methods)
    axes[0].invert_yaxis()
    for n, batch in enumerate(batches):
        axes[-1].plot([], [], 'o-', color=f'C{n}', label=f'batch {batch}')
    axes[-1].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
