"""Rows of the papers' ablations that change options: some steps of each, simulated."""

from pathlib import Path

import pytest

from mmvtr.studies.reading import read_study, study_names
from mmvtr.utils import load_config
from rehearsal.expectations import check
from rehearsal.run import rehearse
from simulation.simulated_model import Size


def rows() -> list:
    """Return a parameter per row, all nightly but the last one of each single-model sweep."""
    found = []
    for name in study_names():
        changed = [row for row in read_study(name).all_rows if row.options and not row.of]
        for run in changed:
            short = run is changed[-1] and 'parts' not in run.options
            marks = [] if short else [pytest.mark.nightly]
            found.append(pytest.param(run, marks=marks, id=f'{name}-{run.name}'))
    return found


@pytest.mark.parametrize('run', rows())
def test_a_row_that_is_options_trains(run):
    cfg = load_config(str(Path(run.config)), run.options)
    steps = 60 if 'member' in cfg.model else 2  # each of four members gets steps
    record = rehearse(cfg, Size(width=16, batch=4, frames=8, layers=1), steps=steps)
    assert record['steps'] == steps
    failed = [one for one in check(cfg, record, record) if one.passed is False]
    assert not failed  # what must hold at any time; everything else may still come
