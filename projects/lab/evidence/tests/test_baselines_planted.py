"""baselines_planted.py: rows that can be trained, a table of what was measured."""

import ast
import importlib
import json

import pytest

from children import ROOT
from mmvtr.engine.checks.config_checks import check_config
from mmvtr.utils import load_config, register_all_modules

#: A line of the table that a test prints, as in the log of a training.
TABLE = """
retrieval  R@1          4.2     0.3    27.0       5.5     0.3    31.0       5.6     0.2    31.5
           R@5         13.0     1.3    40.0      15.2     1.3    62.0
           mAP         20.1     8.3   100.0      22.7     8.3   100.0
"""


@pytest.fixture
def tool():
    return importlib.import_module('baselines_planted')


def value_of(text):
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def test_every_row_is_a_config_whose_options_are_read(tool):
    register_all_modules()
    for comparison in tool.COMPARISONS.values():
        for config, options in comparison.rows.values():
            given = dict(option.split('=', 1) for option in options)
            values = {key: value_of(text) for key, text in given.items()}
            check_config(load_config(str(ROOT / config), values), given)


def test_the_page_says_what_was_measured(tool):
    known = json.loads((ROOT / 'projects/lab/evidence/cells/baselines_planted.json').read_text())
    table = tool.page_table(known['test'], known['limits'])
    gaps = tool.differences(known['test'])
    assert len(table.splitlines()) > 2 and len(gaps.splitlines()) > 2
    for line in (table + '\n' + gaps).splitlines():
        assert line in (ROOT / 'projects/lab/evidence/pages/planted.md').read_text()


def test_chance_and_ceiling_are_those_of_the_last_table(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, 'ROOT', tmp_path)
    folder = tmp_path / tool.folder_of('TACo', 'TACo', 0) / '20260101_000000'
    folder.mkdir(parents=True)
    (folder / 'a.log').write_text(TABLE.replace('0.3', '0.9') + 'then the test\n' + TABLE)
    found = tool.bounds('TACo', 0)
    assert found['chance']['retrieval/t2v_R1'] == found['chance']['retrieval/v2t_R1'] == 0.3
    assert found['ceiling']['retrieval/v2t_R1'] == 31.0
    assert (
        found['chance']['semantic/v2t_mAP'] == 8.3 and found['ceiling']['semantic/t2v_mAP'] == 100
    )
