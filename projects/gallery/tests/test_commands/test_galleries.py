"""Galleries on the command line: what replaces, changes, refits and reads them."""

import json
import sys

import numpy as np
import pytest

from mmvtr.apis import fingerprint, load_retriever
from mmvtr.storage import write_plain
from mmvtr.storage.digests import file_digest
from mmvtr_gallery.store import create_store, open_store
from mmvtr_gallery.stored_model import load_stored_retriever
from tiny_sets import of_videos

MORE = """
model.update(temperature=dict(type='Temperature', init=0.2))
test_dataloader.update(num_workers=2, persistent_workers=True)
"""
CONFIG = of_videos('ghij') + MORE


@pytest.fixture(scope='module')
def corpus(tmp_path_factory, write_video):
    folder = tmp_path_factory.mktemp('corpus')
    (folder / 'config.py').write_text(CONFIG)
    for number, name in enumerate('ghijk'):
        write_video(folder / f'{name}.mp4', [40 + 15 * number, 60 + 10 * number])
    (folder / 'broken.mp4').write_bytes(b'no video')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        model, _ = load_retriever('config.py', None, random_weights=True, device='cpu')
        write_plain(dict(state_dict=model.state_dict()), 'bare.pth')
    return folder


@pytest.fixture
def gallery(folder, tmp_path, monkeypatch):
    """A gallery of the four test videos, without the tool that exports it."""
    pytest.importorskip('faiss')
    model, cfg = load_retriever('config.py', 'bare.pth', device='cpu')
    kept(tmp_path / 'gallery', model, cfg)
    return tmp_path / 'gallery'


def kept(place, model, cfg, **about):
    import torch

    about = dict(checkpoint='bare.pth', **about)
    with create_store(place, 2, model=fingerprint(model), about=about) as store:
        store.add(list('ghij'), torch.randn(4, 2, generator=torch.Generator().manual_seed(0)))
        store.keep_config(json.dumps(cfg.to_dict()))
        store.persist()


def contents(folder):
    return {str(path): path.read_bytes() for path in folder.rglob('*') if path.is_file()}


@pytest.mark.parametrize(
    'changes, words',
    [
        (('--delete', 'g', '--add', 'broken.mp4'), 'broken'),
        (('--delete', 'g', '--add', 'gone.mp4'), 'gone.mp4'),
        (('--delete', 'nobody', '--add', 'k.mp4'), 'has no item'),
        (('--delete', 'g', '--add', 'h.mp4'), 'has item'),
        (('--delete', 'g', 'nobody'), 'has no item'),
        (('--refit', 'texts.txt'), '2 different queries are too few for 4 items'),
        (('--undo',), 'has no change to undo'),
    ],
)
def test_a_failed_command_changes_nothing(folder, gallery, error, changes, words):
    (folder / 'texts.txt').write_text('a\n\nbc\n')
    before = contents(gallery)
    assert words in error('search.py', gallery, *changes)
    assert contents(gallery) == before


def test_a_file_in_the_place_of_another(folder, gallery, tool):
    printed = tool('search.py', gallery, '--delete', 'g', 'h', '--add', 'g.mp4', 'k.mp4')
    assert printed == f'{gallery}: 4 videos, 2 of them new, 2 removed\n'
    store = open_store(gallery)
    assert store.get(['g'])[0].path == 'g.mp4' and store.count({'id': ['g', 'i', 'j', 'k']}) == 4


def test_refit_and_undo(folder, gallery, tool, capsys):
    (folder / 'texts.txt').write_text('a\nbc\ndef\nghij\nklmno\n')
    printed = tool('search.py', gallery, '--refit', 'texts.txt')
    assert f'{gallery}: refitted: ' in printed and 'of 5 queries of the bank find' in printed
    store = open_store(gallery)
    assert store.last_refit['temperature'] > 0 and store.debiaser is not None
    assert 'the last refit is undone' in tool('search.py', gallery, '--undo')
    assert open_store(gallery).debiaser is None
    (folder / 'few.txt').write_text('a\n')
    assert 'refitted' in tool('search.py', gallery, '--refit', 'few.txt', '--fewer')
    for wrong in (('--undo', '--refit', 'few.txt'), ('a', '--fewer'), ('--undo', '--delete', 'g')):
        with pytest.raises(SystemExit):
            tool('search.py', gallery, *wrong)


PLATT = dict(
    method='platt', fitted=[9.0, -3.0], scores=[-2.0, 0.0, 2.0], lower=[0.0] * 3, upper=[1.0] * 3
)


def test_p_match_of_hits_and_a_line_below_those_that_are_precise(folder, gallery, tool, error):
    import math

    from mmvtr.functional.uncertainty.calibration import Calibration

    assert 'has no calibration' in error('search.py', gallery, 'a', '--min-precision', '0.5')
    plain = [row.split() for row in tool('search.py', gallery, 'a', '--raw').splitlines()[1:]]
    assert len(plain) == 4 and all(len(row) == 3 for row in plain)
    raw = [float(row[2]) - 5e-5 for row in plain]  # it is printed with four places
    grid = sorted(raw)
    with open_store(gallery, write=True) as store:
        fitted = dict(PLATT, scores=grid, lower=[0.0] * 4, upper=[1.0] * 4)
        # half of the pairs with the second score match, and nearly none with the third
        slope = 40 / (raw[1] - raw[2])
        fitted['fitted'] = [slope, -slope * raw[1]]
        store.calibrate(Calibration.from_dict(fitted))
        store.persist()
    rows = tool('search.py', gallery, 'a').splitlines()[1:]
    for row, score in zip(rows, raw):
        p = 1 / (1 + math.exp(-slope * (score - raw[1])))
        assert abs(float(row.split()[3].removeprefix('P=')) - p) < 0.1
    rows = tool('search.py', gallery, 'a', '--min-precision', '0.99').splitlines()
    assert [row.strip()[:5] for row in rows].index('below') == 2  # the text, and one hit
    assert 'precision must lie in' in error('search.py', gallery, 'a', '--min-precision', '1')
    with pytest.raises(SystemExit):
        tool('search.py', gallery, '--delete', 'g', '--min-precision', '0.5')


def test_what_a_gallery_encodes_is_decoded_here(gallery, monkeypatch):
    """A worker process would be forked from one with the threads of a store."""
    import torch

    def forked(*args, **kwargs):
        raise AssertionError('a worker process')

    monkeypatch.setattr(
        torch.utils.data.dataloader._MultiProcessingDataLoaderIter, '__init__', forked
    )
    store = open_store(gallery)
    model, cfg = load_stored_retriever(gallery, store)
    from mmvtr.apis import encode_texts, encode_videos

    assert encode_videos(model, cfg, ['g.mp4', 'k.mp4']).ids == ['g', 'k']
    assert encode_texts(model, cfg, ['a']).ids == ['0']


# -- exports -----------------------------------------------------------------------------------


def test_an_export_asks_before_it_replaces(folder, tool, error, tmp_path):
    pytest.importorskip('faiss')
    export = ('export_index.py', 'config.py', 'bare.pth', '--out', tmp_path)
    (tmp_path / 'config.json').write_text('of somebody else')
    assert '4 videos of the test set, raw scores' in tool(*export)
    with open_store(tmp_path, write=True) as store:
        store.delete(['g'])
        store.persist()
    before = contents(tmp_path)
    assert f'{tmp_path} holds a gallery: --replace puts the new one' in error(*export)
    assert contents(tmp_path) == before and open_store(tmp_path).count() == 3
    tool(*export, '--replace')
    assert open_store(tmp_path).count() == 4
    assert (tmp_path / 'config.json').read_text() == 'of somebody else'


def test_an_export_keeps_a_calibration(folder, tool, error, tmp_path):
    pytest.importorskip('faiss')
    export = ('export_index.py', 'config.py', 'bare.pth', '--out', tmp_path)
    file = tmp_path / 'fit.json'
    for value, words in (
        (dict(PLATT, debiased=True), 'no biases'),
        (dict(PLATT, fitted=[1]), 'does not belong to platt'),
        ([], 'a calibration needs'),
    ):
        file.write_text(json.dumps(value))
        assert words in error(*export, '--calibration', file)
    assert 'gone.json' in error(*export, '--calibration', tmp_path / 'gone.json')
    file.write_text(json.dumps(PLATT))
    tool(*export, '--calibration', file)
    assert open_store(tmp_path).calibration.fitted.tolist() == [9, -3]


# -- what somebody else has written ------------------------------------------------------------


def poisoned(mark):
    """Changes to a config, each of which would write ``mark`` if it ran as code."""
    call = dict(type='pathlib.Path.touch', self=str(mark))
    system = dict(type='os.system', command=f'touch {mark}')
    return [
        dict(_base_=['evil.py']),
        dict(_base_='./evil.py'),
        dict(custom_imports=dict(imports=['evil'])),
        dict(custom_imports=['evil'], default_scope='evil'),
        dict(model=system),
        dict(model=dict(type='ToyRetriever', encoder=system)),
        dict(default_scope='evil'),
        dict(model=dict(type='evil.Model')),
        dict(model=dict(_scope_='evil', type='ToyEncoder')),
        dict(model=call),
        'text_pipeline',
        'video_pipeline',
        'collate_fn',
    ]


@pytest.mark.parametrize('number', range(13))
@pytest.mark.parametrize('kept_as', ['config.json', 'kept'])
def test_no_config_of_a_store_runs_code(
    folder, gallery, tmp_path, tool, error, monkeypatch, number, kept_as
):
    mark = tmp_path / 'ran'
    for place in (gallery, folder):
        (place / 'evil.py').write_text(f'open({str(mark)!r}, "w")')
    monkeypatch.syspath_prepend(str(gallery))
    _, cfg = load_retriever('config.py', None, random_weights=True, device='cpu')
    cfg, change = cfg.to_dict(), poisoned(mark)[number]
    system = dict(type='os.system', command=f'touch {mark}')
    if change == 'collate_fn':
        cfg['test_dataloader']['collate_fn'] = system
    elif isinstance(change, str):
        cfg['test_dataloader']['dataset'][change] = [system]
    else:
        cfg.update(change)
    if kept_as == 'kept':
        with open_store(gallery, write=True) as store:
            store.keep_config(json.dumps(cfg))
            store.persist()
    else:
        with open_store(gallery, write=True) as store:
            store._commit(config=None)
            store.persist()
        (gallery / 'config.json').write_text(json.dumps(cfg))
    if {*change} <= {'_base_', 'custom_imports'}:  # keys that are not read
        assert tool('search.py', gallery, 'a', '--k', 2).startswith('a\n')
    else:
        said = error('search.py', gallery, 'a')
        assert 'config' in said and '--config FILE' in said
    assert not mark.exists() and 'evil' not in sys.modules


def test_ones_own_config_is_trusted(folder, gallery, tool):
    """What ``--config`` names is run, as every config is."""
    with open_store(gallery, write=True) as store:
        store.keep_config('{}')
        store.persist()
    assert tool('search.py', gallery, 'a', '--k', 2, '--config', 'config.py').startswith('a\n')


@pytest.mark.parametrize(
    'text', ['', '[]', '{"a": ', '[' * 100_000, '\udcff', '{"model": 3}', '"x"']
)
def test_configs_that_are_none(folder, gallery, error, text):
    with open_store(gallery, write=True) as store:
        store._commit(config=None)
        store.persist()
    (gallery / 'config.json').write_bytes(text.encode(errors='surrogateescape'))
    assert 'config.json' in error('search.py', gallery, 'a')


def test_a_flipped_bit_in_the_config(gallery, error):
    path = open_store(gallery).config
    digest, raw = file_digest(path), bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 4
    path.write_bytes(raw)
    assert digest != file_digest(path)
    assert f'{path} is damaged' in error('search.py', gallery, 'a')


def test_quarantine_and_release(folder, gallery, tool, error):
    first = tool('search.py', gallery, 'a', '--k', 1).splitlines()[1].split()[1]
    printed = tool('search.py', gallery, 'a', '--k', 4, '--quarantine', first)
    said, _, *rows = printed.splitlines()
    assert said == f'{gallery}: 1 of 4 videos are in quarantine'
    assert len(rows) == 3 and first not in [row.split()[1] for row in rows]
    assert 'has no item' in error('search.py', gallery, '--quarantine', 'nobody')
    assert 'not in quarantine' in error('search.py', gallery, '--release', 'nobody')
    printed = tool('search.py', gallery, 'a', '--k', 1, '--release', first)
    assert printed.splitlines()[0] == f'{gallery}: 0 of 4 videos are in quarantine'
    assert printed.splitlines()[2].split()[1] == first
    with pytest.raises(SystemExit):
        tool('search.py', gallery, '--release', first, '--undo')


def test_suspects(folder, gallery, tool, error):
    texts = ['a', 'bc', 'def', 'ghij', 'klmno'] * 12
    (folder / 'texts.txt').write_text('\n'.join(texts))
    said = error('search.py', gallery, '--suspects', 'texts.txt')
    assert '60 queries and 4 items are too few' in said
    with open_store(gallery, write=True) as store:
        vector = store.get(['g'])[0].vector
        away = [-vector * (1 + i / 100) for i in range(60)]
        store.add([f'x{i}' for i in range(60)], np.array(away))
        store.delete(['h', 'i', 'j'])
        store.persist()
    printed = tool('search.py', gallery, '--suspects', 'texts.txt').splitlines()
    assert printed[0].endswith(f'{len(printed) - 1} videos look made to be found by everybody')
    assert all('of the texts' in row for row in printed[1:]) and len(printed) > 1
