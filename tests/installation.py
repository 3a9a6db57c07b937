"""The project as its users have it: a wheel, installed where no checkout is in sight."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Union

from children import ROOT

#: What a source distribution is made of.
SOURCES = ('LICENSE', 'MANIFEST.in', 'README.md', 'model-index.yml', 'pyproject.toml', 'setup.cfg')
FOLDERS = ('configs', 'docs', 'mmvtr', 'tests', 'tools')
PIP = [sys.executable, '-m', 'pip', '--disable-pip-version-check', '--quiet', '--no-input']


class Installation(NamedTuple):
    """A wheel, and a folder that it is installed in.

    Attributes:
        wheel: the file.
        site: what PYTHONPATH names: of the project nothing else is on a child's path.  The heavy
            dependencies are those of this Python.
        gallery: where mmvtr-gallery is installed; None: nowhere.
    """

    wheel: Path
    site: Path
    gallery: Path | None = None

    @property
    def mim(self) -> Path:
        """The folder of ``configs/``, ``tools/`` and ``model-index.yml``."""
        return self.site / 'mmvtr' / '.mim'

    def run(self, folder: Path, *command: Union[str, Path], timeout: float = 300) -> str:
        """Run a command in a folder; ``python`` and ``torchrun`` are those of this Python.

        Returns:
            All that it printed, on stdout and stderr.

        Raises:
            AssertionError: it failed; with the end of what it printed.
        """
        done = subprocess.run(
            [str(part) for part in command],
            cwd=folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, f'{command}: {done.stdout[-4000:]}'
        return done.stdout

    @contextmanager
    def tools(self, folder: Path) -> Iterator[Callable[..., tuple[int, str]]]:
        """``run(folder, 'train', ...)`` as ``python -m mmvtr train ...``, without its imports.

        Args:
            folder: where the process that has imported all is; an empty one.

        Yields:
            A function that gives the exit code and all that was printed.
        """
        server = subprocess.Popen(
            [sys.executable, str(ROOT / 'tests' / 'serve_tools.py')],
            cwd=folder,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

        def run(folder: Path, *arguments: Any) -> tuple[int, str]:
            log = folder / 'printed.txt'
            log.unlink(missing_ok=True)
            print(
                json.dumps([str(folder), list(map(str, arguments)), str(log)]),
                file=server.stdin,
                flush=True,
            )
            return int(server.stdout.readline()), log.read_text()

        with server:
            assert server.stdout.readline().strip() == str(self.site / 'mmvtr' / '__init__.py')
            yield run
            server.stdin.close()

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a command: this process', with the installed project."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ['PATH']])
        sites = os.pathsep.join(str(x) for x in (self.site, self.gallery) if x)
        return dict(os.environ, PATH=path, PYTHONPATH=sites, OMP_NUM_THREADS='1')


def copy_sources(folder: Path) -> Path:
    """Copy what the project is built from: a build leaves files beside its sources."""
    folder.mkdir()
    for name in SOURCES:
        shutil.copy2(ROOT / name, folder)
    left_out = shutil.ignore_patterns('__pycache__', '*.pyc', 'images')
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=left_out)
    return folder


def build_wheel(sources: Path, folder: Path) -> Path:
    """``pip wheel`` without a network: with this Python's setuptools."""
    options = ['--no-deps', '--no-index', '--no-build-isolation', '--wheel-dir', str(folder)]
    subprocess.run([*PIP, 'wheel', str(sources), *options], check=True)
    (wheel,) = folder.glob('*.whl')
    return wheel


def _install(wheel: Path, site: Path) -> Path:
    options = ['--no-deps', '--no-index', '--no-compile', '--target', str(site)]
    subprocess.run([*PIP, 'install', str(wheel), *options], check=True)
    return site


def install(folder: Path) -> Installation:
    """Build the wheel and install it, both below ``folder``."""
    wheel = build_wheel(copy_sources(folder / 'sources'), folder / 'wheel')
    return Installation(wheel, _install(wheel, folder / 'site'))


def with_gallery(installed: Installation, folder: Path) -> Installation:
    """The same with the wheel of mmvtr-gallery beside it, built and installed below ``folder``."""
    left_out = shutil.ignore_patterns('__pycache__', '*.pyc', 'tests', 'docs', '*.egg-info')
    shutil.copytree(ROOT / 'projects/gallery', folder / 'sources', ignore=left_out)
    wheel = build_wheel(folder / 'sources', folder / 'wheel')
    return installed._replace(gallery=_install(wheel, folder / 'site'))
