"""docs/mmaction2.md: each row runs, or names what there is."""

import pickle
import re
import shlex
from importlib import import_module

import pytest

import mmvtr.apis
from children import ROOT, run_tool
from tiny_sets import of_planted

PAGE = (ROOT / 'docs' / 'mmaction2.md').read_text()
ROWS = [line.strip('| ').split(' | ')[1] for line in PAGE.splitlines() if line.startswith('| `')]
COMMANDS = [
    part for row in ROWS for part in re.findall(r'`python (?:tools|projects/lab)/([^`]*)`', row)
]
NAMES = [name for row in ROWS for name in re.findall(r'`(mmvtr[\w.]+)', row)]


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """A folder with a config, a checkpoint and scores of a test."""
    folder = tmp_path_factory.mktemp('mmaction2')
    hooks = "custom_hooks = [dict(type='ScoresFileHook')]\n"
    (folder / 'p.py').write_text(of_planted('c2v_planted', max_epochs=1) + hooks)
    code, printed = run_tool(folder, 'train.py', 'p.py')
    assert code == 0, printed
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize('command', COMMANDS)
def test_a_command_runs(trained, command):
    names = dict(CONFIG='p.py', CHECKPOINT='work_dirs/p/best.pth')
    tool, *arguments = [names.get(word, word) for word in shlex.split(command)]
    code, printed = run_tool(trained, tool, *arguments)
    assert code == 0, printed


def test_the_dump_has_a_row_for_each_text(trained):
    best = 'work_dirs/p/best.pth'
    code, printed = run_tool(trained, 'test.py', 'p.py', best, '--dump', 'scores.pkl')
    assert code == 0, printed
    samples = pickle.loads((trained / 'scores.pkl').read_bytes())
    videos = {len(sample['pred_score']) for sample in samples}
    assert len(samples) > 1 and len(videos) == 1
    assert [sample['sample_idx'] for sample in samples] == [*range(len(samples))]


@pytest.mark.parametrize('name', NAMES)
def test_a_name_is_there(name):
    module, _, attribute = name.rpartition('.')
    assert hasattr(import_module(module), attribute)


def test_each_row_is_one_of_both():
    assert len(ROWS) >= 15 and len(COMMANDS) >= 9 and len(NAMES) >= 8
    for row in ROWS:
        assert re.search('`python (tools|projects/lab)/', row) or '`mmvtr.' in row, row


@pytest.mark.parametrize(
    ('name', 'lead'),
    [('init_model', 'load_retriever'), ('inference_recognizer', 'encode_videos')],
)
def test_the_names_of_the_field_lead_here(name, lead):
    with pytest.raises(ImportError, match=lead):
        getattr(mmvtr.apis, name)
    assert not hasattr(mmvtr.apis, 'zebra')
