"""tools/benchmark/gpu.py: all of it on a CPU, tiny; a miss and a failure are seen."""

import importlib
import json
import os
import subprocess
import sys

import pytest
import torch

from children import ROOT


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / 'tools/benchmark'))
    return importlib.import_module('gpu')


@pytest.mark.nightly
def test_the_whole_tool(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / 'tools/benchmark/gpu.py', '--device', 'cpu', '--smoke'],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / 'work_dirs/cuda'
    page = (folder / 'cuda.md').read_text()
    assert page in done.stdout and '6 of 6 bars are met.' in page
    found = json.loads((folder / 'cuda.json').read_text())
    assert found['machine']['torch'] == torch.__version__
    sections = found['sections']
    assert list(sections) == [
        *('float32', 'autocast', 'compiled', 'steps', 'configs', 'processes'),
        *('step_time', 'loss', 'scores', 'decode', 'towers'),
    ]
    for section in sections.values():
        assert f'## {section["title"]}' in page and section['values']
    assert len(sections['float32']['values']) > 90
    assert sections['float32']['values']['contrastive']['gradient'] < 1e-4
    assert sections['processes']['values']['backend'] == 'gloo'
    steps = sections['step_time']['values']
    assert steps['micro_batch 2']['peak'] < steps['with debiasing']['peak']
    assert steps['micro_batch 2']['seconds'] > 0
    assert sections['decode']['values']['all frames'] > 0


def run(tool, monkeypatch, folder, *arguments):
    argv = ['gpu.py', '--device', 'cpu', '--smoke', '--out', str(folder), *arguments]
    monkeypatch.setattr(sys, 'argv', argv)
    return tool.main()


def test_a_missed_bar_a_failing_section_and_no_memory(tool, monkeypatch, tmp_path, capsys):
    functional = importlib.import_module('gpu_check.functional')
    timing = importlib.import_module('gpu_check.timing')
    monkeypatch.setattr(functional, 'BAR', 1e-12)
    monkeypatch.setitem(tool.SECTIONS, 'steps', lambda setting: 1 / 0)
    assert run(tool, monkeypatch, tmp_path, '--only', 'float32', 'steps', 'decode') == 1
    page = (tmp_path / 'cuda.md').read_text()
    assert '0 of 2 bars are met. Not met:' in page
    assert 'This section failed: ZeroDivisionError' in page and '## Decoding' in page

    def too_large():
        raise torch.OutOfMemoryError('CUDA out of memory')

    calls = dict(small=lambda: torch.ones(10), large=too_large)
    found = timing.measure(calls, torch.device('cpu'), repeats=2)
    assert found['small'].seconds > 0 and found['small'].peak >= 40
    assert timing.milliseconds(found['large']) == 'out of memory'
    assert timing.ratio(found['large'], found['small']) == '-'


@pytest.mark.skipif(torch.cuda.is_available(), reason='there is a CUDA device')
def test_without_cuda_it_says_so(tool, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['gpu.py'])
    assert tool.main() == 2
    assert capsys.readouterr().out.startswith('error: torch finds no CUDA device here')


def test_no_tool_is_called_like_a_package_that_torch_imports():
    names = {path.stem for path in (ROOT / 'tools/benchmark').glob('*.py')}
    assert not names & {'cuda', 'torch', 'triton', 'numpy'}
