"""The gallery's tests run where mmvtr-gallery is installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    version('mmvtr-gallery')
    collect_ignore_glob = []
except PackageNotFoundError:
    collect_ignore_glob = ['*']


def pytest_report_header() -> list[str]:
    """Say why nothing of this folder is collected."""
    here = 'mmvtr-gallery is not installed (pip install -e projects/gallery): its tests are skipped'
    return [here] if collect_ignore_glob else []
