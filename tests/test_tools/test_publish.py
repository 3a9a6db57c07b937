"""publish.py: from a config and a checkpoint to a folder, and what it refuses."""

import json
import runpy
import sys

import pytest
import torch

from children import ROOT
from mmvtr.apis import load_retriever
from mmvtr.apis.pretrained import from_pretrained
from mmvtr.storage import write_plain
from tiny_sets import of_videos

CONFIG = of_videos()
LOG = """2026/01/01 - results on val

protocol: set ToyVideos val | ids 99 | texts 2

2026/01/01 - results on test

retrieval  R@1     12.3     1.0

protocol: set ToyVideos test | ids 1234 | texts 4 |
          ties mean rank
2026/01/01 - bye
"""


@pytest.fixture
def publish(tmp_path, monkeypatch, capsys):
    """Runs the tool in a folder with a config, a checkpoint, results and a log."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'mine.py').write_text(CONFIG)
    (tmp_path / 'run.log').write_text(LOG)
    (tmp_path / 'metrics.json').write_text(json.dumps({'retrieval/rsum': 123.4}))
    model, _ = load_retriever('mine.py', None, random_weights=True, device='cpu')
    with torch.no_grad():
        model.encoder.frames.weight.fill_(0.625)
    write_plain(dict(state_dict=model.state_dict()), 'best.pth')

    def run(*arguments):
        tool = str(ROOT / 'tools/model_converters/publish.py')
        monkeypatch.setattr(sys, 'argv', [tool, *arguments])
        runpy.run_path(tool, run_name='__main__')
        return capsys.readouterr().out

    return run


def test_a_folder(publish, tmp_path):
    own = ('mine.py', 'best.pth', '--out', 'out')
    printed = publish(*own, '--results', 'metrics.json', '--protocol', 'run.log', '--name', 'It')
    assert 'out: 18 parameters' in printed and 'warning' not in printed
    card = (tmp_path / 'out/README.md').read_text()
    assert '# It\n' in card and '| `retrieval/rsum` | 123.4 |' in card
    assert 'protocol: set ToyVideos test | ids 1234 | texts 4 | ties mean rank\n' in card
    model, _ = from_pretrained('out', device='cpu')
    assert model.encoder.frames.weight.item() == 0.625
    printed = publish(
        *own, '--results', 'metrics.json', '--cfg-options', 'test_dataloader.batch_size=5'
    )
    assert 'warning: the card has results without their protocol' in printed
    config = json.loads((tmp_path / 'out/config.json').read_text())
    assert config['test_dataloader']['batch_size'] == 5


def test_an_upload(publish, monkeypatch):
    calls = []
    monkeypatch.setattr(
        'huggingface_hub.create_repo', lambda *args, **kwargs: calls.append((args, kwargs)) or 'url'
    )
    monkeypatch.setattr('huggingface_hub.upload_folder', lambda **kwargs: calls.append(kwargs))
    printed = publish('mine.py', 'best.pth', '--out', 'out', '--push', 'me/it', '--private')
    assert printed.splitlines()[-1] == 'url'
    assert calls[0] == (('me/it',), dict(private=True, exist_ok=True))
    assert calls[1]['repo_id'] == 'me/it'
    assert 'model.safetensors' in calls[1]['allow_patterns']


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['mine.py', 'gone.pth'], 'error: checkpoint gone.pth does not exist'),
        (['mine.py', 'run.log'], 'error: checkpoint run.log cannot be read: it is not a file of'),
        (['mine.py', 'best.pth', '--results', 'x.json'], 'error: results x.json do not exist'),
        (['mine.py', 'best.pth', '--protocol', 'x.log'], 'a log file that exists, found .x.log'),
        (['mine.py', 'best.pth', '--protocol', 'mine.py'], 'mine.py has no protocol line'),
        (['mine.py', 'best.pth', '--push', 'it'], "error: a repository 'NAME/MODEL' expected"),
    ],
)
def test_what_is_refused(publish, arguments, message):
    with pytest.raises(SystemExit, match=message):
        publish(*arguments, '--out', 'out')
