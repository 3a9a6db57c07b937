"""Print where configs differ from the official codes that they follow, and why.

    python tools/analysis_tools/official_codes.py             # all codes
    python tools/analysis_tools/official_codes.py UATVR CE    # some

The table is markdown, from ``configs/official_codes.yml``, which lists every argument of their
optimizers, schedules, samplers, augmentations and initialisers; tests hold it against the configs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

from mmvtr.cli.start import tool

import yaml

from mmvtr.cli import Parser

FILE = Path(__file__).resolve().parents[2] / 'configs/official_codes.yml'
Argument = tuple[str, list[str], str, dict[str, Any]]


def arguments(listed: dict[str, Any]) -> Iterator[Argument]:
    """Yield (code, configs, name, dict of ``at``, ``official``, and more) of each argument."""
    for code in listed['codes']:
        for row in code['rows']:
            for name, value in row['values'].items():
                if isinstance(value, list):
                    value = dict(zip(('at', 'official'), value))
                places = [value['at']] if isinstance(value['at'], str) else value['at']
                yield code['code'], row['configs'], name, dict(value, at=places)


def table(listed: dict[str, Any]) -> str:
    """Return the markdown table of arguments that differ, by reason."""
    codes_of: dict[str, dict[tuple, list[str]]] = {name: {} for name in listed['reasons']}
    for code, _, name, entry in arguments(listed):
        if 'why' in entry:
            value = (name, _said(entry['official']), _said(entry['here']))
            codes_of[entry['why']].setdefault(value, []).append(code)
    lines = ['| codes | argument | the code | here | why |', '|' + 5 * '---|']
    for reason, values in codes_of.items():
        for n, (value, codes) in enumerate(values.items()):
            why = 'as above' if n else listed['reasons'][reason]
            lines.append(f'| {", ".join(dict.fromkeys(codes))} | {" | ".join(value)} | {why} |')
    return '\n'.join(lines)


def count(listed: dict[str, Any]) -> str:
    """Return how many arguments are listed, equal, and differ for a reason."""
    counts = [(len(configs), 'why' in entry) for _, configs, _, entry in arguments(listed)]
    differ, values = sum(why for _, why in counts), sum(n for n, _ in counts)
    return (
        f'{len(counts)} arguments of {len(listed["codes"])} codes are compared with {values} '
        f'values in configs: {len(counts) - differ} are equal, {differ} differ for a reason.'
    )


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ', '.join(map(_said, value))
    return 'no' if value is None or value is False else 'yes' if value is True else f'{value}'


@tool
def main() -> None:
    listed = yaml.safe_load(FILE.read_text())
    names = [code['code'] for code in listed['codes']]
    parser = Parser(__doc__)
    add = parser.add_argument
    add('codes', nargs='*', metavar='CODE', help=f'which: {", ".join(names)} (default: all)')
    args = parser.parse_args()
    if unknown := sorted({*args.codes} - {*names}):
        parser.error(f'no code {unknown[0]!r}: there are {", ".join(names)}')
    listed['codes'] = [x for x in listed['codes'] if x['code'] in (args.codes or names)]
    print(table(listed), count(listed), sep='\n\n')


if __name__ == '__main__':
    main()
