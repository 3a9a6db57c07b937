"""Where configs are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def config_file(name: str) -> str:
    """Return the file of a config, of the package or of the laboratory, from the root."""
    own = f'projects/lab/configs/{name}.py'
    return own if (ROOT / own).is_file() else f'configs/{name}.py'
