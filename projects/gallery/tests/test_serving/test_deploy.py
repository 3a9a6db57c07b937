"""The Dockerfile and the systemd unit: what they name is there, and what they start can be."""

import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys

import pytest

from children import ROOT, tool_file

DEPLOY = ROOT / 'projects/gallery/deploy'


def started(monkeypatch, words):
    monkeypatch.setattr(sys, 'argv', ['serve.py', *words])
    return runpy.run_path(str(tool_file('serve.py')))['parse_args']()


def test_the_dockerfile_starts_what_the_health_check_asks(monkeypatch):
    text = (DEPLOY / 'Dockerfile').read_text()
    entry, options = (
        json.loads(re.search(rf'^{name} (\[.*\])$', text, re.MULTILINE)[1])
        for name in ('ENTRYPOINT', 'CMD')
    )
    assert entry == ['mmvtr', 'serve']
    args = started(monkeypatch, options)
    check = re.search(r"urlopen\('http://127.0.0.1:(\d+)/health'", text)
    assert int(check[1]) == args.port and f'EXPOSE {args.port}\n' in text
    assert args.host == '0.0.0.0' and f'VOLUME ["{args.store}"]' in text
    for path in re.findall(r'/opt/mmvtr(/[\w/]+)?(?:\[|\s|$)', text):
        assert (ROOT / f'./{path}').is_dir(), path
    assert 'USER 10001\n' in text[: text.index('ENTRYPOINT')]


def test_the_unit_starts_the_service(monkeypatch, tmp_path):
    text = (DEPLOY / 'mmvtr-gallery.service').read_text()
    command = shlex.split(re.search(r'^ExecStart=(.*)$', text, re.MULTILINE)[1])
    assert command[:2] == ['/opt/mmvtr/bin/mmvtr', 'serve']
    args = started(monkeypatch, command[2:])
    assert args.metrics and args.host == '127.0.0.1'  # a reverse proxy is in front
    assert args.token_file == '${CREDENTIALS_DIRECTORY}/token' and 'LoadCredential=token:' in text
    if not shutil.which('systemd-analyze'):
        pytest.skip('needs systemd-analyze')
    unit = tmp_path / 'mmvtr-gallery.service'
    unit.write_text(text.replace('/opt/mmvtr/bin/mmvtr', sys.executable))
    said = subprocess.run(
        ['systemd-analyze', 'verify', '--man=no', str(unit)], capture_output=True, text=True
    )
    of_unit = [line for line in said.stderr.splitlines() if unit.name in line]
    assert not of_unit, of_unit
