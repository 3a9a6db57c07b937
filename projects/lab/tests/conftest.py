"""Make the laboratory's modules importable, which no distribution installs."""

import sys
from pathlib import Path

LAB = Path(__file__).parents[1]
sys.path[:0] = [str(LAB), str(LAB / 'evidence')]
