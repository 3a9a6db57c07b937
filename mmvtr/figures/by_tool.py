"""Figures that a tool of its own draws, with the same command line."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Optional, Sequence

from mmengine.config import Config

from mmvtr.utils import tool_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Line(NamedTuple):
    """A command line.

    Attributes:
        config: as it was given; ``cfg`` is what was read from it.
        checkpoints: of the model, maybe none.
        out: folder for the pictures.
        queries, top, seed: as in :class:`~mmvtr.figures.study.Asked`.
        options: ``--cfg-options`` and what followed, or nothing.
    """

    config: str
    cfg: Config
    checkpoints: Sequence[str]
    out: Path
    queries: Any
    top: Optional[int]
    seed: int
    options: Sequence[str] = ()


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


def lengths(line: Line) -> Iterator[tuple[str, 'Figure']]:
    """Fig. 2 and 6 to 10 of the frame-length paper: lengths of train and test, no model runs."""
    run_tool('length_bias', line.config, '--out', line.out, *line.options)
    yield from ()


def cost(line: Line) -> Iterator[tuple[str, 'Figure']]:
    """Tab. 5 of the frame-length paper, 2 of UATVR, 3 of ARL: size and time of a model."""
    run_tool('cost', line.config, *line.options)
    yield from ()
