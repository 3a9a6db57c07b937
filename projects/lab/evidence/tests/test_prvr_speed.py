"""The speed and size table of the PRVR models, on models small enough for a test."""

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / 'speed/prvr_speed.py'


@pytest.fixture
def tool():
    spec = importlib.util.spec_from_file_location('prvr_speed', TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_table(tool, monkeypatch, capsys):
    options = '--galleries 3 5 --frames 8 --words 4 --video-dim 6 --text-dim 5 --repeats 1'
    monkeypatch.setattr(sys, 'argv', ['prvr_speed.py', *options.split(), '--device', 'cpu'])
    tool.main()
    title, *rows = [line for line in capsys.readouterr().out.splitlines() if '|' in line]
    assert title.split('|')[-3:-1] == [' ms at 3 ', ' ms at 5 ']
    cells = {line.split('|')[1].strip(): line.split('|')[2:-1] for line in rows}
    for name in tool.MODELS_SHOWN:
        assert float(cells[name][0]) > 1 and min(map(float, cells[name][2:])) > 0
    assert [x.strip() for x in cells['ARL, as printed']] == ['5.34', '1.23', '', '', '']


def test_flops_of_arl(tool, monkeypatch):
    """Two a multiply-add: FC, four maps and two products of attention, pooling, cosines."""
    options = '--galleries 2 --frames 8 --words 4 --video-dim 6 --text-dim 5 --repeats 1'
    monkeypatch.setattr(sys, 'argv', ['prvr_speed.py', *options.split(), '--device', 'cpu'])
    parameters, flops, *_ = tool.measure('arl_i3d.py', {}, tool.parse_args())

    def layers(tokens, width):
        return tokens * 384 * (width + 4 * 384 + 2 * tokens)

    branch = layers(8, 6) + layers(4, 5) + 4 * 384 + 8 * 384
    assert flops == pytest.approx(2 * 2 * branch / 1e9)
    attention = 4 * 384 * 385 + 2 * 384
    tables = (8 + 4) * 384 + 4 * 384
    inputs = 2 * 6 + 2 * 5 + (6 + 1) * 384 + (5 + 1) * 384
    assert parameters == pytest.approx(2 * (2 * attention + tables + inputs + 384) / 1e6)
