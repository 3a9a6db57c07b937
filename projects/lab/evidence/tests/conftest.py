"""Fixtures of the library's tests, and the scripts of this project on the path."""

import sys
from pathlib import Path

from tests.conftest import shared, write_video  # noqa: F401 - fixtures

sys.path.insert(0, str(Path(__file__).parents[1]))
