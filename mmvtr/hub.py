"""``mmvtr::NAME``: lets mmengine's hub find this package's configs and base files by name.

``_base_ = 'mmvtr::_base_/c2v_tiny.py'`` and ``mmengine.hub.get_config('mmvtr::NAME.py')`` work once
this module is imported, as ``mmvtr.registry`` and ``mmvtr.utils`` do.  mmengine itself has a closed
list of packages, requires a slash in each name, and finds a package through pkg_resources, which
setuptools has dropped (82) and which cannot locate an editable install.  So this module wraps
mmengine's three lookup functions: they answer for mmvtr here and call mmengine's own version for
all other packages.  The files are in ``mmvtr/.mim``, as in any OpenMMLab package: links to
``configs/``, ``tools/`` and ``model-index.yml`` in a checkout, the files in a wheel.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

import mmengine.config.utils
import mmengine.utils.package_utils

PACKAGE = 'mmvtr'


def _package_and_path(theirs: Callable, cfg_path: str) -> tuple[str, str]:
    package, mark, path = cfg_path.partition('::')
    return (package, path) if mark and package == PACKAGE else theirs(cfg_path)


def _is_installed(theirs: Callable, package: str) -> bool:
    return package == PACKAGE or theirs(package)


def _installed_path(theirs: Callable, package: str) -> str:
    return str(Path(__file__).parent) if package == PACKAGE else theirs(package)


def _answer(home: ModuleType, name: str, answer: Callable[..., Any]) -> None:
    """Replace a function of mmengine with ``answer(theirs, ...)`` wherever it was imported."""
    theirs = getattr(home, name)
    ours = functools.wraps(theirs)(functools.partial(answer, theirs))
    for key, module in list(sys.modules.items()):
        if key.partition('.')[0] == 'mmengine' and vars(module).get(name) is theirs:
            setattr(module, name, ours)


_answer(mmengine.config.utils, '_get_package_and_cfg_path', _package_and_path)
_answer(mmengine.utils.package_utils, 'is_installed', _is_installed)
_answer(mmengine.utils.package_utils, 'get_installed_path', _installed_path)
