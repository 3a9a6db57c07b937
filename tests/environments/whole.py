"""README's test command in fresh environments, one Python after the other.

``python tests/environments/whole.py --all`` tries each Python that is there, ``--newest``,
``--lowest`` and ``--this`` the ones that they name.  A table says of each what passed and failed,
the minutes, and the releases of PyAV, torch and numpy; exit status 1 where any failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from environments.run import ROOT, option, pythons  # noqa: E402

SHOWN = ('av', 'torch', 'numpy')
TESTED = ('--editable', '.[test]', '--editable', 'projects/gallery[test]')
#: The end of what pytest prints: '3 failed, 11029 passed, 15 skipped in 1025.11s'.
ENDING = re.compile(r'(?:\d+ [a-z]+, )*\d+ [a-z]+ in [\d.]+s')


def chosen(known: dict[tuple[int, int], str], args: argparse.Namespace) -> list[str]:
    """Interpreters in the order of the options, each once."""
    every = list(known.values())
    asked = [
        *(every if args.all else ()),
        *(every[-1:] if args.newest else ()),
        *((known.get(sys.version_info[:2], sys.executable),) if args.this else ()),
        *(every[:1] if args.lowest else ()),
    ]
    return [*dict.fromkeys(asked)]


def whole(python: str, processes: int, arguments: list[str]) -> tuple[list[str], bool]:
    """Install and test with a Python; the row of the table, and whether all passed."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, '-m', 'venv', folder], check=True)
        inside = str(Path(folder, 'bin', 'python'))
        clean = {k: v for k, v in os.environ.items() if k not in ('PYTHONPATH', 'VIRTUAL_ENV')}
        clean['PATH'] = os.pathsep.join([str(Path(folder, 'bin')), clean['PATH']])

        def run(*words: str, **options: object) -> subprocess.CompletedProcess:
            return subprocess.run(
                [inside, *words],
                cwd=ROOT,
                env=clean,
                stdin=subprocess.DEVNULL,
                text=True,
                **options,
            )

        run('-m', 'pip', 'install', '--quiet', *TESTED, check=True)
        ask = 'import sys, platform; from importlib.metadata import version; '
        ask += 'print(platform.python_version(), *map(version, sys.argv[1:]))'
        releases = run('-c', ask, *SHOWN, capture_output=True, check=True).stdout.split()
        began, last = time.monotonic(), ''
        command = [inside, '-m', 'pytest', '-n', str(processes), *arguments]
        with subprocess.Popen(
            command, cwd=ROOT, env=clean, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors='replace',
        ) as tests:  # fmt: skip
            for line in tests.stdout:
                print(line, end='', flush=True)
                last = found[0] if (found := ENDING.search(line)) else last
        minutes = (time.monotonic() - began) / 60
        row = [releases[0], last or f'exit status {tests.returncode}', f'{minutes:.1f}']
        return [*row, *releases[1:]], tests.returncode == 0


def table(rows: list[list[str]]) -> str:
    lines = [['Python', 'tests', 'minutes', 'PyAV', 'torch', 'numpy'], ['---'] * 6, *rows]
    return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for name, which in (
        ('all', 'each Python'), ('newest', 'the newest one'), ('this', 'that of this command'),
        ('lowest', 'the lowest one'),
    ):  # fmt: skip
        parser.add_argument(f'--{name}', action='store_true', help=which)
    parser.add_argument('-n', type=int, default=2, dest='processes', help='of pytest (default: 2)')
    parser.add_argument('rest', nargs='*', help='further arguments of pytest, after --')
    args = parser.parse_args()
    lowest = tuple(map(int, option('python_requires').lstrip('>=').split('.')))
    rows, passed = [], True
    for python in chosen(pythons(lowest), args):
        row, fine = whole(python, args.processes, args.rest)
        rows.append(row)
        passed = passed and fine
        print(table(rows), flush=True)
    sys.exit(not (passed and rows))


if __name__ == '__main__':
    main()
