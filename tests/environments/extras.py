"""Each install that a page states, in an environment of its own, and what the page then starts.

``python tests/environments/extras.py`` installs mmvtr and mmvtr-gallery without extras in a fresh
environment, then the extras of each row of ``extras.yml`` in one of its own on top of it, and
prints a table: extras, what was started, result.  ``--only serve`` tries rows with that extra.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.metadata import distribution, requires
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parents[2]
ROWS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix('.yml').read_text())
#: Extras for those who work on the project: what they run is the tests, or the site.
DEVELOPERS = {'test', 'nightly', 'dev', 'docs'}
PORT = 8917
#: Keys of a row, the distribution, and its folder.
PARTS = (('mmvtr', 'mmvtr', '.'), ('gallery', 'mmvtr-gallery', './projects/gallery'))


def named(row: dict[str, Any]) -> str:
    """The extras of a row in words: 'mmvtr[hdf5]'."""
    own = [f'{name}[{",".join(row[key])}]' for key, name, _ in PARTS if row.get(key)]
    return ' '.join(own) or 'mmvtr'


def closure(wanted: Sequence[tuple[str, tuple[str, ...]]]) -> set[str]:
    """Names of the distributions that an install brings, by the metadata of those that are here.

    Raises:
        PackageNotFoundError: one that is not here.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    seen: set[tuple[str, str]] = set()
    queue = [(canonicalize_name(name), extra) for name, own in wanted for extra in ('', *own)]
    while queue:
        name, extra = one = queue.pop()
        if one in seen:
            continue
        seen.add(one)
        for line in requires(name) or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate(dict(extra=extra)):
                needs = canonicalize_name(needed.name)
                queue += [(needs, more) for more in ('', *needed.extras)]
    return {name for name, _ in seen}


def linked(folder: Path, names: set[str], *, here: Sequence[Path]) -> str:
    """An environment of the distributions that are named, as links to those of this Python.

    Args:
        folder: to make.
        here: folders of code that is not installed.

    Returns:
        Its Python.
    """
    subprocess.run([sys.executable, '-m', 'venv', '--without-pip', folder], check=True)
    (site,) = folder.glob('lib/python*/site-packages')
    for name in names:
        found = distribution(name)
        for path in found.files or ():
            top = path.parts[0]
            if top in ('..', '__pycache__') or top.endswith(('.pth', '.egg-link')):
                continue
            place = site / top
            if not place.exists():
                place.symlink_to(Path(found.locate_file(top)).resolve())
    (site / 'project.pth').write_text('\n'.join(map(str, here)) + '\n')
    return str(folder / 'bin' / 'python')


def first_block(folder: Path) -> str:
    """README's first block of Python, whose files are made in ``folder``."""
    random = np.random.default_rng(0)
    for name, count in dict(videos=300, logged_texts=400, queries=5).items():
        np.save(folder / f'{name}.npy', random.normal(size=(count, 16)))
    return re.search(r'```python\n(.*?)```', (ROOT / 'README.md').read_text(), re.DOTALL)[1]


def start(python: str, code: str, folder: Path) -> Optional[str]:
    """Run Python code in an environment; returns the end of what it printed where it failed."""
    clean = {k: v for k, v in os.environ.items() if k not in ('PYTHONPATH', 'VIRTUAL_ENV')}
    done = subprocess.run(
        [python, '-c', code], cwd=folder, env=clean, capture_output=True, text=True, timeout=600
    )
    return (done.stdout + done.stderr)[-3000:] if done.returncode else None


# -- the job ---------------------------------------------------------------------------------------


def serves(python: str, folder: Path) -> Optional[str]:
    """``mmvtr serve --demo`` until its page answers."""
    command = [python, '-m', 'mmvtr', 'serve', '--demo', '--port', str(PORT)]
    with open(folder / 'served.txt', 'w') as log:
        service = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        for _ in range(600):
            if service.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f'http://127.0.0.1:{PORT}/') as answer:
                    return None if answer.status == 200 else f'status {answer.status}'
            except OSError:
                time.sleep(1)
        return (folder / 'served.txt').read_text()[-3000:]
    finally:
        if service.poll() is None:
            os.killpg(service.pid, signal.SIGTERM)
            service.wait(60)


def installed(folder: Path, base: Optional[Path], *what: str) -> tuple[str, Optional[str]]:
    """A fresh environment, on top of another one's packages; its Python, and what pip said."""
    subprocess.run([sys.executable, '-m', 'venv', folder], check=True)
    (site,) = folder.glob('lib/python*/site-packages')
    if base is not None:
        (below,) = base.glob('lib/python*/site-packages')
        # As a .pth file of its own it also reads those of the environment below.
        (site / 'base.pth').write_text(f'import site; site.addsitedir({str(below)!r})\n')
    python = str(folder / 'bin/python')
    done = subprocess.run(
        [python, '-m', 'pip', 'install', '--quiet', *what],
        cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return python, done.stderr[-3000:] if done.returncode else None


def tried(rows: Sequence[dict[str, Any]], folder: Path) -> Iterator[tuple[str, str, Optional[str]]]:
    """Yield (extras, what was started, what failed) of each row."""
    base = folder / 'base'
    _, failed = installed(base, None, '--editable', '.', '--editable', 'projects/gallery')
    if failed:
        yield 'no extras', 'pip install', failed
        return
    for number, row in enumerate(rows):
        place = folder / f'row{number}'
        what = [f'{path}[{",".join(row[key])}]' for key, _, path in PARTS if row.get(key)]
        python, failed = str(base / 'bin/python'), None
        if what:
            python, failed = installed(place, base, *(f'--editable={one}' for one in what))
        if failed:
            yield named(row), 'pip install', failed
            continue
        place.mkdir(exist_ok=True)
        yield named(row), 'imports', start(python, row['start'], place)
        command = row.get('command')
        if command == 'first block':
            yield named(row), "README's first block", start(python, first_block(place), place)
        elif command:
            yield named(row), command, serves(python, place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--only', help='rows with this extra')
    args = parser.parse_args()
    every = [row for row in ROWS if not args.only or args.only in named(row)]
    failures = 0
    print('| extras | started | result |\n|---|---|---|', flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for extras, what, failed in tried(every, Path(folder)):
            failures += failed is not None
            print(f'| {extras} | {what} | {"fails" if failed else "works"} |', flush=True)
            if failed:
                print(failed, file=sys.stderr, flush=True)
    sys.exit(bool(failures))


if __name__ == '__main__':
    main()
