"""Parses the configs of the project once a process: tests read them thousands of times."""

import copy
import functools
import os
from pathlib import Path
from typing import Any, Optional

from mmengine.config import Config

ROOT = Path(__file__).resolve().parents[1]
#: Files below these do not change while tests run.
FOLDERS = (f'{ROOT}/configs/', f'{ROOT}/projects/lab/configs/')

_parse = Config._file2dict
_parsed = functools.cache(_parse)


def _file2dict(
    filename: Any,
    use_predefined_variables: bool = True,
    use_environment_variables: bool = True,
    lazy_import: Optional[bool] = None,
) -> tuple[dict, str, dict]:
    """As mmengine's own; of the project's files a copy of what was parsed before."""
    how = (use_predefined_variables, use_environment_variables, lazy_import)
    file = os.path.abspath(os.path.expanduser(filename))
    if not os.path.realpath(file).startswith(FOLDERS):
        return _parse(filename, *how)
    return copy.deepcopy(_parsed(file, *how))


Config._file2dict = staticmethod(_file2dict)
