"""Locate config files."""

from __future__ import annotations

from pathlib import Path

from mmvtr.utils import named_config

ROOT = Path(__file__).resolve().parents[2]


def config_file(name: str) -> str:
    """Return a config's path from the repository root, in projects/lab/configs or configs."""
    own = f'projects/lab/configs/{name}.py'
    if (ROOT / own).is_file():
        return own
    return str(named_config(name).resolve().relative_to(ROOT))
