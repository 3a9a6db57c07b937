"""The scripts of this project on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
