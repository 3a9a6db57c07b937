"""Figures that a tool of its own draws, with the same command line."""

from __future__ import annotations

import runpy
import sys
from typing import Any

from mmvtr.utils import tool_folder


def run_tool(name: str, *arguments: Any) -> None:
    """Run a tool of ``tools/analysis_tools`` in this process.

    Raises:
        ValueError: what the tool says as it ends, where it says so in a sentence.
        SystemExit: it ends without one.
    """
    file = tool_folder() / 'analysis_tools' / f'{name}.py'
    before = sys.argv
    sys.argv = [str(file), *map(str, arguments)]
    try:
        runpy.run_path(str(file), run_name='__main__')
    except SystemExit as ended:
        if not isinstance(ended.code, str):
            raise
        raise ValueError(ended.code.removeprefix('error: ')) from ended
    finally:
        sys.argv = before
