"""The scripts of this project on the path, and the modules that studies share."""

import sys
from pathlib import Path

sys.path[:0] = [str(path) for path in Path(__file__).parents[1:3]]
