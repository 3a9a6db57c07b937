"""Captions that people judged, as one more condition of the first page."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

from comparison.files import load_json
from comparison.markdown import table

#: Beside the folder of the cells; see pages/judged_training.md.
FILE = 'judged_training.json'
#: Rows of one training say too little.
LEAST_SEEDS = 3
#: Of which the most methods were trained with several seeds.
BATCH = 1024
MEASURES = {'both_P1': 'judged P@1', 'both_AP': 'AP of what nobody annotated', 'both_R1': 'R@1'}
ABOUT = """\
## On captions judged by people

Flickr8k, captions that look for captions of the same image, whose test pairs a crowd has judged
([what it is, and what it is not](judged_training.md)). The aim is the precision of the first place
by people's word, the cost paired R@1; both directions together, over InfoNCE of the same seeds,
with 95 % intervals over seeds and images. Methods were looked at with seeds 0 to 2; *confirmed* are
other seeds, kept for that. Learning rates were chosen by InfoNCE on dev, which favours it.
"""


def people(folder: Path) -> str:
    """The section; '' where the file of those trainings is not there."""
    path = folder / FILE
    if not path.exists():
        return ''
    content = load_json(path)
    known = [(row, False) for row in content['rows'] if row['batch'] == BATCH]
    known += [(row, True) for row in content['confirmation']]
    lines = [
        [
            row['method'] + (', **confirmed**' if confirmed else ''),
            *(_told(row['minus_infonce'][key]) for key in MEASURES),
            f'{len(row["seeds"])}',
        ]
        for row, confirmed in known
        if 'minus_infonce' in row and len(row['seeds']) >= LEAST_SEEDS
    ]
    return f'{ABOUT}\n{table(["method", *MEASURES.values(), "trainings"], lines)}'


def _told(numbers: Sequence[float]) -> str:
    mean, low, high = numbers
    return f'{mean:+.1f} [{low:+.1f}, {high:+.1f}]'
