"""A small share of the faults, and what the judge calls them."""

import pytest

from campaign import faults


@pytest.mark.nightly
def test_every_fault_is_refused_in_words(tmp_path, monkeypatch):
    monkeypatch.setattr(faults, 'DISK', faults.DISK[:3])
    monkeypatch.setattr(faults, 'METRICS', faults.METRICS[:2])
    trials = faults.run(6, 1, tmp_path)
    assert len(trials) == 16
    assert all(trial.verdict == 'refused' for trial in trials), [t for t in trials if t.detail]


@pytest.mark.parametrize(
    ('code', 'printed', 'verdict'),
    [
        (0, 'Epoch(train)', 'silent'),
        (1, 'Traceback ... error: modle', 'raw'),
        (1, 'KeyError', 'raw'),
        (1, 'Epoch(train) error: modle', 'lost'),
        (1, f'error: modle {500 * "x"}', 'long'),
        (1, 'error: something', 'nameless'),
        (1, 'error: modle: nothing reads this key', 'refused'),
    ],
)
def test_verdicts(code, printed, verdict):
    assert faults.judge(faults.Fault('typo', names='modle'), code, printed) == verdict


def test_typos_are_those_of_a_seed():
    assert faults.typos(20, 3) == faults.typos(20, 3) != faults.typos(20, 4)
