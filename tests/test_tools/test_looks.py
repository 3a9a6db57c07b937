"""browse_dataset draws what the loader yields; analyze_logs draws and compares runs."""

import json

import pytest
from PIL import Image

from children import run_tool
from tiny_sets import of_planted

BROWSE, ANALYZE = 'analysis_tools/browse_dataset.py', 'analysis_tools/analyze_logs.py'


def test_browse(tmp_path):
    (tmp_path / 'p.py').write_text(of_planted('c2v_planted', max_epochs=1))
    code, printed = run_tool(tmp_path, BROWSE, 'p.py', '--out', 'sheet.png', '--number', 3)
    assert code == 0 and '3 of ' in printed and printed.count('text ') == 3, printed
    sheet = Image.open(tmp_path / 'sheet.png').convert('RGB')
    assert len(sheet.getcolors(2**24)) > 50  # pictures, not only words


def test_browse_without_a_split(tmp_path):
    (tmp_path / 'p.py').write_text(of_planted('c2v_planted') + 'val_dataloader = None\n')
    code, printed = run_tool(tmp_path, BROWSE, 'p.py', '--out', 'sheet.png', '--split', 'val')
    assert code == 1 and 'p.py has no val_dataloader' in printed


@pytest.fixture
def runs(tmp_path):
    for name, factor in (('a', 1), ('b', 2)):
        (tmp_path / name / '20260101' / 'vis_data').mkdir(parents=True)
        rows = [dict(loss=factor * 4 / step, step=step) for step in (1, 2)]
        rows += [{'retrieval/rsum': factor * x, 'step': s} for x, s in ((30, 1), (20, 2))]
        (tmp_path / name / '20260101' / 'vis_data' / 'scalars.json').write_text(
            '\n'.join(map(json.dumps, rows))
        )
    return tmp_path


def test_logs_beside_each_other(runs):
    code, printed = run_tool(runs, ANALYZE, 'a', 'b', '--keys', 'loss', 'retrieval/rsum',
                             '--out', 'curves.png')  # fmt: skip
    assert code == 0, printed
    rows = [line.split() for line in printed.splitlines()]
    assert rows[:2] == [['a', 'b'], ['loss', '2', '4']]
    assert ['retrieval/rsum,', 'highest', '30', '60'] in rows
    assert Image.open(runs / 'curves.png').size[1] > 100


@pytest.mark.parametrize(
    ('arguments', 'said'),
    [
        (['a', 'c'], 'c has no */vis_data/scalars.json'),
        (['a', '--keys', 'lss'], "a has not logged 'lss'; it has loss, retrieval/rsum"),
        (['a', '--out', 'x.png'], '--out needs --keys'),
    ],
)
def test_what_is_not_there(runs, arguments, said):
    code, printed = run_tool(runs, ANALYZE, *arguments)
    assert code == 1 and said in printed
