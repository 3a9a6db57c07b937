"""Commands of the gallery, in this process and in the folder of a module's ``corpus``."""

import runpy
import sys

import pytest

from children import tool_file


@pytest.fixture
def folder(corpus, monkeypatch):
    """The module's corpus, which is the current folder."""
    monkeypatch.chdir(corpus)
    return corpus


@pytest.fixture
def tool(folder, monkeypatch, capsys):
    """Runs a tool in this process; returns what it printed."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, 'argv', [name, *map(str, arguments)])
        runpy.run_path(str(tool_file(name)), run_name='__main__')
        return capsys.readouterr().out

    return run


@pytest.fixture
def error(tool):
    """Runs a tool that must fail; returns its last word, one line."""

    def run(name, *arguments):
        with pytest.raises(SystemExit) as raised:
            tool(name, *arguments)
        message = str(raised.value.code)
        assert message.startswith('error: ') and len(message.splitlines()) == 1
        return message

    return run
