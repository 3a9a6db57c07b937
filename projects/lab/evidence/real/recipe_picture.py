"""The recipe's changes of rsum over InfoNCE by set, with intervals: ``docs/images/recipe.png``.

python projects/lab/evidence/real/recipe_picture.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

import matplotlib
from results import RESULTS, read_rows
from sets import ROOT
from tables import Table, change_over_infonce, place_name, taught_tables

matplotlib.use('Agg')
from matplotlib import pyplot as plt  # noqa: E402

IMAGE = ROOT / 'docs/images/recipe.png'
#: Rows from the top: one vector an item of the size of one model's, then larger ones.
ROWS = dict(
    infonce_bank='InfoNCE + bank',
    self_distilled='student of one',
    student='student of three',
    student_bank='student of three + bank',
    wide='three times as wide',
    ensemble='mean of three models',
)
LARGER = ('wide', 'ensemble')
SMALL, LARGE, DARK = '#1b7837', '#9e9e9e', '#222222'


def draw(tables: Sequence[Table], path: Path) -> Path:
    """A panel a set, a bar a row, a line for its 95 % interval over seeds."""
    figure, axes = plt.subplots(
        1, len(tables), figsize=(2.5 + 2.1 * len(tables), 2.7), sharey=True, squeeze=False
    )
    for axis, table in zip(axes[0], tables):
        for n, name in enumerate(ROWS):
            found = change_over_infonce(table, name)
            if found is not None:
                axis.barh(-n, found.mean, color=LARGE if name in LARGER else SMALL, height=0.65)
                axis.plot([found.low, found.high], [-n, -n], color=DARK, lw=1.5)
        axis.set_title(place_name(table).replace(', ', ',\n'), size=9, color=DARK)
        axis.axvline(0, color=DARK, lw=0.8)
        axis.set_yticks([-n for n in range(len(ROWS))], ROWS.values(), size=9)
        axis.tick_params(axis='x', labelsize=8)
        axis.tick_params(axis='y', length=0)
        axis.spines[['top', 'right', 'left']].set_visible(False)
    figure.supxlabel('rsum over InfoNCE; green: one vector of the same size', size=9)
    figure.tight_layout(pad=0.6)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


if __name__ == '__main__':
    print(draw([x for x in taught_tables(read_rows(RESULTS)) if x.text != 'words'], IMAGE))
