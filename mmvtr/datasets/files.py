"""Which of many files are missing: one listing a folder, as a stat each is slow over a network."""

from __future__ import annotations

from pathlib import Path
from typing import Iterable


def missing_files(paths: Iterable[Path]) -> list[Path]:
    """Those of the paths that do not exist."""
    paths = list(paths)
    present = {folder: _names(folder) for folder in {path.parent for path in paths}}
    return [path for path in paths if path.name not in present[path.parent]]


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
