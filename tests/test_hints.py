"""Options in the syntax of where the user is."""

import sys
from types import SimpleNamespace

import pytest

from children import ROOT
from mmvtr.hints import on_command_line, option


@pytest.mark.parametrize(
    'file, tool',
    [
        (ROOT / 'tools/train.py', True),
        (ROOT / 'tools/dataset_converters/check_dataset.py', True),
        (ROOT / 'mmvtr/.mim/tools/test.py', True),
        ('/home/me/tools/train.py', False),
        (ROOT / 'toolsmith.py', False),
        (None, False),
    ],
)
def test_where_the_user_is(monkeypatch, file, tool):
    main = SimpleNamespace() if file is None else SimpleNamespace(__file__=str(file))
    monkeypatch.setitem(sys.modules, '__main__', main)
    assert on_command_line() is tool
    assert option('missing', 'skip') == ('missing=skip' if tool else "missing='skip'")
    nested = option('on_broken.skip', 'a b.txt', prefix='x.')
    assert nested == ('x.on_broken.skip=a b.txt' if tool else "on_broken=dict(skip='a b.txt')")
    assert option('max_share', 0.5) == 'max_share=0.5'


def test_a_relative_name(monkeypatch):
    monkeypatch.chdir(ROOT / 'tools')
    monkeypatch.setitem(sys.modules, '__main__', SimpleNamespace(__file__='train.py'))
    assert on_command_line()
