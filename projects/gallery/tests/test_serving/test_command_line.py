"""What mmvtr serve refuses before it loads anything."""

import runpy
import sys

import pytest

from children import tool_file

TOOL = str(tool_file('serve.py'))


@pytest.mark.parametrize(
    'given, words',
    [
        (['--connections', '0'], '--connections must be 1 or more, not 0'),
        (['--connections', '-3'], '--connections must be 1 or more, not -3'),
        (['--upload-pixels', '0'], '--upload-pixels must be 1 or more, not 0'),
        (['--upload-pixels', 'many'], "invalid int value: 'many'"),
        (['--port', '65536'], '--port must be 0 to 65535'),
    ],
)
def test_limits_that_are_none(monkeypatch, capsys, given, words):
    monkeypatch.setattr(sys, 'argv', ['serve.py', 'DIR', *given])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(TOOL)['parse_args']()
    assert end.value.code == 2 and words in capsys.readouterr().err


def test_defaults_are_those_of_the_service(monkeypatch):
    pytest.importorskip(
        'uvicorn', reason='the service is an extra: pip install projects/gallery[serve]'
    )
    from mmvtr_gallery.serving.uploads import PIXELS

    monkeypatch.setattr(sys, 'argv', ['serve.py', 'DIR'])
    args = runpy.run_path(TOOL)['parse_args']()
    assert args.upload_pixels == PIXELS and args.connections is None and args.links == []
