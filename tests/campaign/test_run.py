"""The command that runs the campaign, and the page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types

import pytest

from campaign import run
from campaign.trial import Trial, count


@pytest.fixture
def parts(monkeypatch):
    """Two parts whose trials are given."""
    trials = {'kills': [Trial('dvtr', 'right')] * 3, 'flips': [Trial('all bytes', 'refused')] * 2}

    def module(name):
        return types.SimpleNamespace(run=lambda number, seed, folder: trials[name.split('.')[-1]])

    monkeypatch.setattr(run, 'importlib', types.SimpleNamespace(import_module=module))
    return trials


def test_a_page_is_made_of_all_stored_results(parts, tmp_path):
    """One part at a time, as a long campaign is run."""
    page = tmp_path / 'page.md'
    assert run.main(['--kills', '3', '--out', str(tmp_path)]) == 0
    assert run.main(['--flips', '2', '--out', str(tmp_path), '--page', str(page)]) == 0
    text = page.read_text()
    assert '| [kills](#kills) | 3 | 3 | 0 | 0 | 0 | 0 |' in text
    assert '| [flips](#flips) | 2 | 0 | 2 | 0 | 0 | 0 |' in text
    assert '| dvtr | 3 | 3 | 0 | 0 | 0 | 0 |' in text


@pytest.mark.parametrize(
    ('verdict', 'column'), [('lost', 3), ('silent', 3), ('raw', 4), ('long', 4), ('hang', 5)]
)
def test_what_went_wrong_is_counted_and_ends_in_failure(parts, tmp_path, capsys, verdict, column):
    parts['kills'].append(Trial('dvtr', verdict, 'seed 7'))
    page = tmp_path / 'page.md'
    assert run.main(['--kills', '4', '--out', str(tmp_path), '--page', str(page)]) == 1
    assert f'dvtr, {verdict}: seed 7' in capsys.readouterr().out
    (row,) = [line for line in page.read_text().splitlines() if line.startswith('| dvtr')]
    assert row.split(' | ')[column + 1].strip(' |') == '1'
    assert json.loads((tmp_path / 'kills.json').read_text())['bad']


def test_an_unknown_verdict_is_an_error():
    with pytest.raises(ValueError, match="not 'fine'"):
        count([Trial('dvtr', 'fine')])


@pytest.mark.nightly
def test_every_part_can_be_run_by_the_command():
    """Outside of pytest, which has more folders on its path than a plain Python."""
    command = f'import runpy; runpy.run_path({run.__file__!r}, run_name="run")'
    parts = [f'import campaign.{name}; campaign.{name}.run' for name in run.PARTS]
    environ = {name: x for name, x in os.environ.items() if name != 'PYTHONPATH'}
    subprocess.run(
        [sys.executable, '-c', '; '.join([command, *parts])], cwd='/', env=environ, check=True
    )


def test_the_committed_page_is_made_of_the_committed_results():
    study = run.ROOT / 'projects/lab/evidence'
    results = run.stored(study / 'cells/reliability')
    assert list(results) == list(run.PARTS)
    assert run.page(results) == (study / 'pages/reliability.md').read_text()
    assert [line for result in results.values() for line in result['bad']] == []
