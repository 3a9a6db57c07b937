"""The gallery's tests run where mmvtr-gallery is installed."""

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # services.py
collect_ignore_glob = [] if find_spec('mmvtr_gallery') else ['*']


def pytest_report_header() -> list[str]:
    """Say why nothing of this folder is collected."""
    here = 'mmvtr-gallery is not installed (pip install -e projects/gallery): its tests are skipped'
    return [here] if collect_ignore_glob else []
