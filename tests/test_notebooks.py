"""The notebooks' code runs, cell by cell, in a folder of its own."""

import json
import re

import matplotlib
import pytest

from children import ROOT

NOTEBOOKS = sorted((ROOT / 'docs/notebooks').glob('*.ipynb'))


def cells(path):
    """The code of a notebook's cells."""
    found = json.loads(path.read_text())['cells']
    return [''.join(cell['source']) for cell in found if cell['cell_type'] == 'code']


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    matplotlib.use('Agg')
    names = {'__name__': path.stem}
    for source in cells(path):
        exec(compile(source, path.name, 'exec'), names)
    raw, debiased = re.findall(r'R@1 ([\d.]+)', capsys.readouterr().out)
    assert float(debiased) > float(raw) + 5
    assert (tmp_path / 'hubs.png').stat().st_size > 10_000


def test_they_are_kept_without_outputs():
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text())['cells']:
            assert not cell.get('outputs') and cell.get('execution_count') is None
    assert NOTEBOOKS
