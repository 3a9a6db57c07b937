"""The converter of TBN features: what it writes, and that a pickle runs nothing."""

import os
import pickle
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from mmvtr.datasets import LoadFeatures

TOOL = Path(__file__).parents[2] / 'tools/dataset_converters/epic_tbn.py'
WIDTHS = dict(RGB=4, Flow=3, Audio=2)


def arrays(clips: int, rows: int = 5) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(clips)
    return {
        name: generator.standard_normal((clips, rows, width)).astype(np.float32)
        for name, width in WIDTHS.items()
    }


@pytest.fixture
def parts(tmp_path):
    """Two clips to train on and one to test on."""
    (tmp_path / 'train.csv').write_text('narration_id,narration\nP01_01_1,a\nP01_01_0,b\n')
    (tmp_path / 'test.csv').write_text('narration_id,narration\nP01_02_0,c\n')
    for name, clips in dict(train=2, test=1).items():
        (tmp_path / f'{name}.pkl').write_bytes(pickle.dumps(arrays(clips)))
    return tmp_path


def convert(monkeypatch, root, *names):
    pairs = [x for name in names for x in ('--part', root / f'{name}.pkl', root / f'{name}.csv')]
    monkeypatch.setattr(sys, 'argv', ['epic_tbn.py', *map(str, (root / 'out/tbn.h5', *pairs))])
    runpy.run_path(str(TOOL), run_name='__main__')


@pytest.mark.parametrize('protocol', [2, 4, 5])
def test_features_of_each_clip(parts, monkeypatch, capsys, protocol):
    (parts / 'train.pkl').write_bytes(pickle.dumps(arrays(2), protocol=protocol))
    convert(monkeypatch, parts, 'train', 'test')
    assert 'tbn.h5: 3 clips' in capsys.readouterr().out
    load = LoadFeatures(str(parts / 'out/tbn.h5'))
    load.check([dict(video_id=name) for name in ('P01_01_0', 'P01_01_1', 'P01_02_0')])
    for name, row, clips in (('P01_01_1', 0, 2), ('P01_01_0', 1, 2), ('P01_02_0', 0, 1)):
        expected = np.concatenate([array[row] for array in arrays(clips).values()], axis=1)
        np.testing.assert_array_equal(load(dict(video_id=name))['features'], expected)
    with pytest.raises(KeyError, match="no features of 1 of 2 videos, e.g. .*'P09_09_9'"):
        load.check([dict(video_id='P01_01_0'), dict(video_id='P09_09_9')])


class Harm:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_runs_nothing(parts, monkeypatch):
    (parts / 'train.pkl').write_bytes(pickle.dumps(arrays(2) | dict(more=Harm(parts / 'harm'))))
    with pytest.raises(SystemExit, match='train.pkl: not a pickle of arrays: it asks for .*mkdir'):
        convert(monkeypatch, parts, 'train')
    assert not (parts / 'harm').exists() and not list((parts / 'out').iterdir())


@pytest.mark.parametrize(
    'content, message',
    [
        (dict(RGB=1), r"expected a dict of \['RGB', 'Flow', 'Audio'\], found \['RGB'\]"),
        ([1], 'found list'),
        (arrays(2) | dict(Flow=np.ones((2, 5))), 'Flow is not a float array'),
        (arrays(2) | dict(Flow=np.ones((2, 5, 3), int)), 'Flow is not a float array'),
        (arrays(2) | dict(Audio=np.ones((3, 5, 3))), r'as many clips and rows .*\(3, 5, 3\)'),
        (arrays(2) | dict(Audio=np.ones((2, 4, 3))), 'as many clips and rows in each'),
        (arrays(3), 'train.pkl has 3 clips, .*train.csv 2 rows'),
    ],
    ids=range(7),
)
def test_bad_features(parts, monkeypatch, content, message):
    (parts / 'train.pkl').write_bytes(pickle.dumps(content))
    with pytest.raises(SystemExit, match=f'error: .*{message}'):
        convert(monkeypatch, parts, 'test', 'train')
    assert not list((parts / 'out').iterdir())


def test_what_it_refuses(parts, monkeypatch):
    with pytest.raises(SystemExit, match=r"train.csv: a second clip 'P01_01_1'"):
        convert(monkeypatch, parts, 'train', 'train')
    (parts / 'train.pkl').write_bytes(pickle.dumps(arrays(2))[:-50])
    with pytest.raises(SystemExit, match='train.pkl: not a pickle of arrays'):
        convert(monkeypatch, parts, 'train')
    convert(monkeypatch, parts, 'test')
    with pytest.raises(SystemExit, match='tbn.h5 is there already'):
        convert(monkeypatch, parts, 'test')
    with pytest.raises(SystemExit, match='none.csv'):
        (parts / 'out/tbn.h5').unlink()
        convert(monkeypatch, parts, 'none')
