"""Figures that a tool of its own draws, with the same command line."""

from __future__ import annotations

import runpy
import sys
from typing import Any

from mmvtr.utils import tool_folder


def run_tool(name: str, *arguments: Any) -> None:
    """Run a tool of ``tools/analysis_tools`` in this process.

    Raises:
        SystemExit: as the tool ends, where it fails.
    """
    file = tool_folder() / 'analysis_tools' / f'{name}.py'
    before = sys.argv
    sys.argv = [str(file), *map(str, arguments)]
    try:
        runpy.run_path(str(file), run_name='__main__')
    finally:
        sys.argv = before
