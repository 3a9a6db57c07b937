"""The short job in fresh environments: each Python that is there, lowest and newest dependencies.

``python tests/environments/run.py --newest`` tries the newest Python with the newest releases;
``--ends --page docs/compatibility.md`` tries the lowest and the newest Python that
``python_requires`` admits with both ends, and writes a table of what was tried; ``--all`` tries
every Python that is there.  Nothing of this process' environment is used.
"""

from __future__ import annotations

import argparse
import configparser
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).with_name('job.py')

#: Options of uv: pip has no such resolution. Releases without a wheel for a Python are none there.
LOWEST = ('--resolution', 'lowest-direct', '--only-binary', ':all:', '--no-binary', 'mmvtr')

FIRST = """# Supported versions

See which releases of Python and of each dependency were tried. `python tests/environments/run.py
--ends --page docs/compatibility.md` makes this page: for the lowest and the newest Python (`--all`:
each) a fresh environment with the lowest releases that `setup.cfg` admits, and one with the newest.
Each renders the planted corpus, trains DVTR for one epoch, tests the checkpoint, reads ten clips.
Of the extras, those of the tests are resolved with the newest releases, not installed.
"""


class Tried(NamedTuple):
    """One environment: Python's version, 'lowest' or 'newest', releases, what failed (or None)."""

    python: str
    end: str
    releases: dict[str, str]
    failure: Optional[str]


def pythons(lowest: tuple[int, int]) -> dict[tuple[int, int], str]:
    """Interpreters by version, oldest first: on the path, and those of pyenv."""
    versions = Path(os.environ.get('PYENV_ROOT', Path.home() / '.pyenv')) / 'versions'
    paths = [shutil.which(f'python3.{minor}') for minor in range(lowest[1], 30)]
    found: dict[tuple[int, int], str] = {}
    for path in [*sorted(versions.glob('3.*/bin/python')), *filter(None, paths)]:
        ask = 'import ensurepip, sys; print(*sys.version_info[:2])'
        done = subprocess.run([str(path), '-c', ask], capture_output=True, text=True)
        version = tuple(map(int, done.stdout.split()))
        if done.returncode == 0 and version >= lowest:  # a shim of pyenv may lead nowhere
            found[version] = str(path)
    return dict(sorted(found.items()))


def option(name: str) -> str:
    """A value of setup.cfg."""
    config = configparser.ConfigParser()
    config.read(ROOT / 'setup.cfg')
    return config['options'][name].strip()


def dependencies() -> list[str]:
    """Names of the direct ones."""
    return [re.match(r'[\w-]+', line)[0] for line in option('install_requires').split('\n')]


def attempt(python: str, end: str) -> Tried:
    """Make an environment, install the project, run the job."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        subprocess.run([python, '-m', 'venv', place / 'venv'], check=True)
        inside = str(place / 'venv' / 'bin' / 'python')
        clean = {k: v for k, v in os.environ.items() if k not in ('PYTHONPATH', 'VIRTUAL_ENV')}
        clean['PIP_DISABLE_PIP_VERSION_CHECK'] = '1'

        def run(*command: str) -> subprocess.CompletedProcess:
            return subprocess.run(
                [inside, *command], cwd=place, env=clean, capture_output=True, text=True
            )

        version = run('-c', 'import platform; print(platform.python_version())').stdout.strip()
        project = ['--editable', str(ROOT)]
        done = run('-m', 'pip', 'install', '--quiet', *(['uv'] if end == 'lowest' else project))
        if done.returncode == 0 and end == 'lowest':
            done = run('-m', 'uv', 'pip', 'install', '--python', inside, *LOWEST, *project)
        elif done.returncode == 0:  # what the README's test command installs exists for this Python
            tested = [f'{ROOT}[test]', f'{ROOT}/projects/gallery[test]']
            done = run('-m', 'pip', 'install', '--quiet', '--dry-run', *tested)
        if done.returncode == 0:
            done = run(str(JOB), folder)
        ask = (
            'import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))'
        )
        told = run('-c', ask, *dependencies()).stdout.split()
        failure = None if done.returncode == 0 else (done.stdout + done.stderr)[-3000:].strip()
        return Tried(version, end, dict(zip(dependencies(), told)), failure)


def page(tried: list[Tried]) -> str:
    """The table, a column an environment."""
    rows = [['', *(f'Python {one.python}, {one.end}' for one in tried)]]
    rows.append(['---'] * (len(tried) + 1))
    rows.append(['**result**', *('passes' if not one.failure else 'fails' for one in tried)])
    rows += [[name, *(one.releases.get(name, '-') for one in tried)] for name in dependencies()]
    return FIRST + '\n' + '\n'.join('| ' + ' | '.join(row) + ' |' for row in rows) + '\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument('--newest', action='store_true', help='the newest Python alone')
    which.add_argument('--ends', action='store_true', help='the lowest and the newest Python')
    which.add_argument('--all', action='store_true', help='every Python')
    parser.add_argument('--jobs', type=int, default=1, help='environments at a time (default: 1)')
    parser.add_argument('--page', type=Path, help='where to write the table')
    args = parser.parse_args()
    lowest = tuple(map(int, option('python_requires').lstrip('>=').split('.')))
    known = pythons(lowest)
    every = list(known.values())
    chosen = every[-1:] if args.newest else every if args.all else [every[0], every[-1]]
    ends = ('newest',) if args.newest else ('lowest', 'newest')
    todo = [(python, end) for python in dict.fromkeys(chosen) for end in ends]
    tried = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for one in pool.map(lambda pair: attempt(*pair), todo):
            tried.append(one)
            print(f'Python {one.python}, {one.end}: {one.failure or "passes"}', flush=True)
    if args.page:
        args.page.write_text(page(tried))
    sys.exit(any(one.failure for one in tried) or not tried)


if __name__ == '__main__':
    main()
