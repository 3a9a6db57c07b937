"""Pickles of Collaborative Experts, MMT and TeachText become stores that our transforms read."""

import os
import pickle
import runpy
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from miniatures import MSVD_CAPTIONS, write_msrvtt, write_msvd
from mmvtr.datasets import LoadExperts, LoadTextFeatures, MSVDDataset

TOOL = Path(__file__).parents[2] / 'tools/dataset_converters/expert_pickles.py'
NAN = float('nan')


def ones(*shape: int, value: float = 1.0, dtype=np.float32) -> np.ndarray:
    return np.full(shape, value, dtype)


def run(monkeypatch, root, *arguments):
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, 'argv', ['expert_pickles.py', *map(str, arguments)])
    runpy.run_path(str(TOOL), run_name='__main__')


def dump(root, name, content, protocol=2):
    (root / name).write_bytes(pickle.dumps(content, protocol=protocol))


def test_experts_of_videos(tmp_path, monkeypatch, capsys):
    dump(tmp_path, 'scene.pickle', dict(a=ones(4, dtype=np.float64), b=ones(1, 4, value=2)))
    dump(tmp_path, 'scene_2.pickle', {b'c': ones(4, value=3, dtype=np.float16)}, 5)
    speech = dict(a=ones(3, 2), b=NAN, c=ones(0, 2), d=np.array(NAN), e=ones(2, 2, value=NAN))
    dump(tmp_path, 'speech.pickle', speech)
    run(monkeypatch, tmp_path, 'videos', 'out/scene.h5', 'scene.pickle', 'scene_2.pickle')
    run(monkeypatch, tmp_path, 'videos', 'out/speech.h5', 'speech.pickle')
    assert capsys.readouterr().out.splitlines() == [
        'out/scene.h5: 3 videos, rows of 4 numbers; 0 more without features, not in it',
        'out/speech.h5: 1 videos, rows of 2 numbers; 4 more without features, not in it',
    ]
    load = LoadExperts(
        dict(
            scene=dict(path='out/scene.h5', dim=4),
            speech=dict(path='out/speech.h5', dim=2, seconds=None),
        )
    )
    load.check([dict(video_id=name) for name in 'abc'])
    first = load(dict(video_id='a'))
    assert first['features'].tolist() == [[1] * 4, *[[1, 1, 0, 0]] * 3]
    assert first['video_extra']['expert'][:5].tolist() == [0, 1, 1, 1, -1]
    assert load(dict(video_id='c'))['features'].tolist() == [[3] * 4]


def test_words_of_texts(tmp_path, monkeypatch, capsys):
    dump(tmp_path, 'gpt.pkl', dict(a=[ones(2, 3), ones(1, 3, value=2)], b=[ones(0, 3)]))
    run(monkeypatch, tmp_path, 'texts', 'gpt.h5', 'gpt.pkl')
    told = 'gpt.h5: 2 texts, rows of 3 numbers; 1 more of unknown words, a row of zeros\n'
    assert capsys.readouterr().out == told
    load = LoadTextFeatures('gpt.h5')
    load.check([dict(text_id=name) for name in ('a#0', 'a#1', 'b#0')])
    assert load(dict(text_id='a#1'))['token_features'].tolist() == [[2, 2, 2]]
    assert load(dict(text_id='b#0'))['token_features'].tolist() == [[0, 0, 0]]


@pytest.fixture
def msrvtt(tmp_path):
    """Captions in another order than ours and as words; a caption more than the datasets have."""
    write_msrvtt(tmp_path)
    names = [f'video{n}' for n in range(5)]
    said = {
        name: [f'Caption {i} of {name}.'.split() for i in (2, 0, 1)] + [['nothing', 'of', 'ours']]
        for name in names
    }
    said['video4'][3] = 'a man a dog and a cat'.split()  # the sentence of 1k-A's test
    features = {
        name: [ones(len(words), 2, value=10 * n + i) for i, words in zip((2, 0, 1, 9), own)]
        for n, (name, own) in enumerate(said.items())
    }
    dump(tmp_path, 'raw-captions.pkl', said)
    dump(tmp_path, 'gpt.pkl', features)
    sets = dict(train='1kA_train9k', test='1kA_test')
    text = ''.join(
        f"{part}_dataloader = dict(dataset=dict(type='MSRVTTDataset', split='{split}', "
        f'ann_root={str(tmp_path)!r}, video_pipeline=[dict(type="LoadFeatures", path="none")], '
        "text_pipeline=[dict(type='LoadTextFeatures', path='gpt.h5')]))\n"
        for part, split in sets.items()
    )
    (tmp_path / 'config.py').write_text(text)
    return tmp_path


ASKED = ('texts', 'gpt.h5', 'gpt.pkl', '--captions', 'raw-captions.pkl', '--config', 'config.py')


def test_texts_by_their_words(msrvtt, monkeypatch, capsys):
    run(monkeypatch, msrvtt, *ASKED)
    assert 'gpt.h5: 13 texts' in capsys.readouterr().out  # 4 x 3 and the test sentence
    with h5py.File('gpt.h5') as file:
        values = {name: (len(file[name]), file[name][0, 0]) for name in file}
    # Sentence 4 is caption 1 of video1; those of the test file begin at 9 (miniatures.py).
    assert values['4'] == (4, 11) and values['9'] == (4, 30) and values['ret0'] == (7, 49)


def test_texts_that_are_not_found(msrvtt, monkeypatch):
    content = pickle.loads((msrvtt / 'gpt.pkl').read_bytes())
    content.pop('video1')
    dump(msrvtt, 'gpt.pkl', content)
    with pytest.raises(SystemExit, match="config.py: 3 texts have no features, e.g. .*'1'"):
        run(monkeypatch, msrvtt, *ASKED)
    dump(msrvtt, 'gpt.pkl', {**content, 'video1': [ones(1, 2)]})
    with pytest.raises(SystemExit, match='has features of 1 captions, but raw-captions.pkl'):
        run(monkeypatch, msrvtt, *ASKED)
    assert not (msrvtt / 'gpt.h5').exists() and not (msrvtt / 'gpt.h5.part').exists()


def test_vectors_go_by_the_ids_of_msvd(tmp_path, monkeypatch):
    write_msvd(tmp_path)
    dump(
        tmp_path, 'w2v.pkl', {name: [ones(2, 3)] * len(own) for name, own in MSVD_CAPTIONS.items()}
    )
    run(monkeypatch, tmp_path, 'texts', 'w2v.h5', 'w2v.pkl')
    dataset = MSVDDataset(
        'train',
        ann_root=str(tmp_path),
        video_pipeline=[],
        text_pipeline=[dict(type='mmvtr.LoadTextFeatures', path='w2v.h5')],
    )
    assert dataset.load_text(3)['tokens'].shape == (2, 3)


class Harm:
    def __reduce__(self):
        return os.mkdir, ('harm',)


@pytest.mark.parametrize(
    'content, message',
    [
        ([1], r'a.pickle: expected features by video id, found \[1\]'),
        ({}, 'expected features by video id'),
        ({7: NAN}, 'expected a string, found 7'),
        ({'../a': NAN}, 'expected an id'),
        ({'a': 'words'}, "'a': expected an array .D. or .F, D., or NaN, found 'words'"),
        ({'a': 1.5}, 'expected an array .* found 1.5'),
        ({'a': np.array(1.5)}, 'expected an array .* found 1.5'),
        ({'a': ones(1, 2, 3)}, r'found \(1, 2, 3\)'),
        ({'a': np.array([1, NAN, np.inf])}, "'a': 2 numbers are not finite float32"),
        ({'a': np.array([1e300])}, '1 numbers are not finite float32'),
        ({'a': ones(3), 'b': ones(2)}, "a.pickle: features of 'b' are 2 wide, the first 3"),
        ({'a': NAN}, 'a.pickle: has no features'),
        ({'a': Harm()}, 'a.pickle: not a pickle of features: it asks for .*mkdir'),
    ],
    ids=range(13),
)
def test_bad_pickles(tmp_path, monkeypatch, content, message):
    dump(tmp_path, 'a.pickle', content)
    with pytest.raises(SystemExit, match=f'error: .*{message}'):
        run(monkeypatch, tmp_path, 'videos', 'out/a.h5', 'a.pickle')
    assert list((tmp_path / 'out').iterdir()) == [] and not (tmp_path / 'harm').exists()


def test_what_it_refuses(tmp_path, monkeypatch, capsys):
    dump(tmp_path, 'a.pickle', dict(a=ones(2)))
    with pytest.raises(SystemExit, match="a.pickle: features of 'a' are in another pickle too"):
        run(monkeypatch, tmp_path, 'videos', 'a.h5', 'a.pickle', 'a.pickle')
    with pytest.raises(SystemExit, match='none.pickle'):
        run(monkeypatch, tmp_path, 'videos', 'a.h5', 'none.pickle')
    with pytest.raises(SystemExit, match="'a': expected a list, found"):
        dump(tmp_path, 'b.pickle', dict(a=NAN))
        run(monkeypatch, tmp_path, 'texts', 'a.h5', 'b.pickle')
    run(monkeypatch, tmp_path, 'videos', 'a.h5', 'a.pickle')
    with pytest.raises(SystemExit, match='a.h5 is there already'):
        run(monkeypatch, tmp_path, 'videos', 'a.h5', 'a.pickle')
    for more in (('--captions', 'c'), ('--config', 'c')):
        with pytest.raises(SystemExit):
            run(monkeypatch, tmp_path, 'texts', 'b.h5', 'a.pickle', *more)
        assert '--captions and --config together' in capsys.readouterr().err
