"""Bars for those who look, one line for files."""

import io

import pytest

from mmvtr.cli.progress import show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def count(monkeypatch, stream, *, until=19, **kwargs):
    monkeypatch.setattr('sys.stdout', stream)
    with show_progress('videos decoded', 19, **kwargs) as advance:
        advance()
        advance(until - 1)
    return stream.getvalue()


@pytest.mark.parametrize('done', [19, 17])
def test_one_line_in_a_file(monkeypatch, done):
    monkeypatch.setenv('FORCE_COLOR', '1')  # as of a CI whose logs are files
    printed = count(monkeypatch, io.StringIO(), until=done)
    assert printed == f'videos decoded: {done} of 19 in 0.0 s\n'


def test_a_terminal_has_a_bar(monkeypatch):
    monkeypatch.setenv('TERM', 'xterm')
    printed = count(monkeypatch, Terminal())
    assert 'videos decoded' in printed and '19/19' in printed and '\x1b[' in printed
    assert ' of 19 in ' not in printed
    monkeypatch.setenv('TERM', 'dumb')
    assert count(monkeypatch, Terminal()).startswith('videos decoded: 19 of 19 in ')


def test_nothing_where_it_is_not_shown(monkeypatch):
    monkeypatch.setenv('TERM', 'xterm')
    for stream in (io.StringIO(), Terminal()):
        assert count(monkeypatch, stream, shown=False) == ''


def test_work_that_fails_is_not_told_as_done(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr('sys.stdout', stream)
    with pytest.raises(ValueError, match='broken'), show_progress('videos decoded', 19):
        raise ValueError('broken')
    assert stream.getvalue() == ''
