"""Names on a console that cannot write them: escapes, and all else as on any console."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from children import ROOT, _run_tool, in_child
from tiny_sets import of_videos

NAMES = '猫é'
ENCODINGS = ('ascii', 'cp1252', 'latin-1')
LOOP = "test_cfg = dict(type='mmvtr.RetrievalLoop')\n"
METRIC = "test_evaluator = dict(type='mmvtr.RetrievalMetric')\n"


@pytest.fixture(scope='module')
def folder(tmp_path_factory, write_video):
    made = tmp_path_factory.mktemp('names')
    (made / 'config.py').write_text(of_videos(NAMES) + LOOP + METRIC)
    (made / 'clips').mkdir()
    for grey, name in enumerate(NAMES):
        write_video(made / f'{name}.mp4', [100 * grey, 9])
        write_video(made / f'clips/{name}.mp4', [100 * grey, 9])
    rows = ''.join(f'{name}.mp4,a {name}\n' for name in NAMES)
    (made / 't.csv').write_text(f'video,text\n{rows}')
    return made


def on_console(encoding: str, *call) -> None:
    """Run a tool whose stdout is as Python makes it of PYTHONIOENCODING=ENCODING."""
    sys.stdout = io.TextIOWrapper(open(1, 'wb', closefd=False), encoding, line_buffering=True)
    _run_tool(*call)


def printed(encoding: str, folder, tool: str, *arguments: object) -> str:
    log = folder / f'{encoding}.txt'
    log.unlink(missing_ok=True)
    words = [*map(str, arguments)]
    code = in_child(log, on_console, encoding, folder, tool, words)
    said = log.read_bytes().decode(encoding)
    assert code == 0 and 'Error' not in said and 'Traceback' not in said, said
    return said


@pytest.mark.parametrize('encoding', ENCODINGS)
def test_tools_print_names_that_a_console_lacks(folder, encoding):
    test = printed(encoding, folder, 'test.py', 'config.py', '--random-weights')
    assert 'rsum' in test
    options = ['table=t.csv', 'videos=clips', 'test_dataloader.dataset.split=all']
    options += [f'{part}_dataloader.dataset.split=all' for part in ('train', 'val')]
    said = printed(
        encoding, folder, 'dataset_converters/check_dataset.py', ROOT / 'configs/own_clip4clip.py',
        '--cfg-options', *options,
    )  # fmt: skip
    assert 'MISSING' not in said and '\\u732b' in said
    config = printed(encoding, folder, 'analysis_tools/print_config.py', 'config.py')
    assert '\\u732b' in config and ('é' if encoding != 'ascii' else '\\xe9') in config


@pytest.mark.parametrize('encoding', ENCODINGS)
def test_hits_are_printed(folder, encoding):
    pytest.importorskip('mmvtr_gallery', reason='pip install -e projects/gallery')
    pytest.importorskip('faiss', reason='a store is an extra: pip install projects/gallery[index]')
    gallery = folder / f'gallery_{encoding}'
    bare = folder / 'bare.pth'
    if not bare.is_file():
        assert in_child(folder / 'made.txt', make_weights, folder) == 0
    printed(encoding, folder, 'export_index.py', 'config.py', 'bare.pth', '--out', gallery)
    hits = printed(encoding, folder, 'search.py', gallery, 'é', '--config', 'config.py')
    assert '\\u732b' in hits


def make_weights(folder) -> None:
    from mmvtr.apis import load_retriever
    from mmvtr.storage import write_plain

    os.chdir(folder)
    model, _ = load_retriever('config.py', None, random_weights=True, device='cpu')
    write_plain(dict(state_dict=model.state_dict()), 'bare.pth')


@pytest.mark.nightly
def test_a_command_of_ascii(folder):
    """As a user starts it."""
    done = subprocess.run(
        [sys.executable, '-m', 'mmvtr', 'print_config', 'config.py'],
        cwd=folder,
        env={**os.environ, 'PYTHONIOENCODING': 'ascii'},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert b'\\u732b' in done.stdout
