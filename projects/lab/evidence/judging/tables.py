"""The figures as tables of markdown."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from judging.measures import DIRECTIONS

KEYS = {'R@1': 'R1', 'P@1': 'P1', 'AP of EXTRA': 'AP'}
HEAD = ' | '.join(f'{d} {k}' for d in DIRECTIONS for k in KEYS)
#: Columns of differences with their intervals.
NAMES = [f'{d} {k}' for d in DIRECTIONS for k in ('R@1', 'AP of EXTRA')]
NAMES += [f'both {k}' for k in KEYS]


def tables(results: Mapping[str, Mapping[str, Any]]) -> str:
    """All of them, with a heading each."""
    return '\n'.join(line for kind, found in results.items() for line in _kind(kind, found)) + '\n'


def _kind(kind: str, found: Mapping[str, Any]) -> Iterator[str]:
    yield from (f'# {kind}', '', f'Score gap {found["score_gap"]:g}.')
    shares = ' and '.join(f'{found["unseen"][d]:.1f} % ({d})' for d in DIRECTIONS)
    yield from (f'Among no ten best of Flickr8k: {shares} of the items.', '', '## Raw', '')
    yield from (f'| queries | {HEAD} |', '|' + '---|' * 7)
    for name, both in found['raw'].items():
        cells = ' | '.join(f'{both[d][k]:.1f}' for d in DIRECTIONS for k in KEYS.values())
        yield f'| {name} | {cells} |'
    for source, points in found['all'].items():
        yield from ('', f'## All of Flickr8k, {source}', '')
        yield from (f'| transform | setting | {HEAD} |', '|' + '---|' * 8)
        for point in points:
            cells = [point[f'{d}_{k}'] for d in DIRECTIONS for k in KEYS.values()]
            shown = ' | '.join(f'{mean:+.1f} +- {error:.1f}' for mean, error in cells)
            yield f'| {point["transform"].replace("_", " ")} | {point["name"]} | {shown} |'
    yield from ('', '## On the other half of Flickr8k, beside the choices', '')
    yield from _beside(found['beside'])
    for corpus in ('flickr8k', 'crisscrossed'):
        for source, rows in found[corpus].items():
            for base in ('raw', 'csls'):
                yield from ('', f'## Confirmed on {corpus}, {source}, against {base}', '')
                yield from _confirmed(rows, base)


def _beside(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Iterator[str]:
    yield from (f'| unbalanced sinkhorn | {" | ".join(NAMES)} |', '|' + '---|' * (1 + len(NAMES)))
    for name, row in found.items():
        yield f'| {name} | {_shown(row)} |'


def _confirmed(rows: Mapping[str, Mapping[str, Any]], base: str) -> Iterator[str]:
    yield f'| transform | setting | {" | ".join(NAMES)} |'
    yield '|' + '---|' * (2 + len(NAMES))
    for name, row in rows.items():
        if name == base:
            continue
        yield f'| {name.replace("_", " ")} | {row["name"]} | {_shown(row[base])} |'


def _shown(row: Mapping[str, Sequence[float]]) -> str:
    keys = [f'{d}_{KEYS[k]}' for d, _, k in (name.partition(' ') for name in NAMES)]
    cells = [row[key] for key in keys]
    return ' | '.join(f'{mean:+.1f} [{low:+.1f}, {high:+.1f}]' for mean, low, high in cells)
