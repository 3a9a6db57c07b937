"""The laboratory's modules, which no distribution installs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
