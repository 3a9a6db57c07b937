"""The page of costs is what its command makes: its tables whole, the numbers of two rows anew."""

import re
import sys

import cost_page
import pytest
from mmengine.registry import init_default_scope

from mmvtr.utils import register_all_modules

ROW = re.compile(r'\| `(\w+)`')


@pytest.fixture
def told():
    """Rows of the page by their configs."""
    lines = cost_page.PAGE.read_text().splitlines()
    return {found[1]: line for line in lines if (found := ROW.match(line))}


def test_tables_and_studies(told, tmp_path, monkeypatch):
    """A config or a study that a reproduction page trains, and this page lacks, or the reverse."""
    page = cost_page.PAGE.read_text()
    (tmp_path / 'costs.md').write_text(page)
    monkeypatch.setattr(cost_page, 'PAGE', tmp_path / 'costs.md')
    monkeypatch.setattr(cost_page, 'rows', lambda names: [told.get(n, f'no {n}') for n in names])
    monkeypatch.setattr(sys, 'argv', ['cost_page.py'])
    cost_page.main()
    assert (tmp_path / 'costs.md').read_text() == page


@pytest.mark.parametrize('name', ['arl_tvr_clip', 'clip4clip_activitynet'])
def test_numbers(told, name):
    """In fp32 behind stored features, and in 16 bit with towers whose frames are read."""
    register_all_modules()
    init_default_scope('mmvtr')
    made = cost_page.row(name)
    number = r'[\d,]*\.?\d+'
    assert re.split(number, made) == re.split(number, told[name])
    values = [
        [float(one.replace(',', '')) for one in re.findall(number, line.split('`')[2])]
        for line in (made, told[name])
    ]
    assert len(values[0]) > 8 and values[0] == pytest.approx(values[1], rel=0.1)
