"""Word features and pooled frames: the golden values of MS-SL, and loops over a definition."""

import h5py
import numpy as np
import pytest

from mmvtr.datasets import LoadTextFeatures, PoolFeatures, TrimFeatures
from mmvtr.datasets.videos.feature_transforms import mean_pool, unit_rows
from mmvtr.registry import TRANSFORMS


def pooled_by_loops(x, num):
    """The rule of the docstring in float64, one row after the other."""
    rows = len(x)
    edges = [min(round(i * rows / num), rows - 1) for i in range(num + 1)]  # python: half to even
    means = []
    for first, stop in zip(edges, edges[1:]):
        chunk = [x[i].astype(np.float64) for i in range(first, stop)] or [x[first]]
        means.append(sum(chunk) / len(chunk))
    return np.array(means)


@pytest.mark.parametrize('rows, num', [(23, 4), (129, 128), (1000, 128), (3, 4), (1, 32), (9, 1)])
def test_mean_pool(rows, num):
    x = np.random.default_rng(rows).standard_normal((rows, 5)).astype(np.float32)
    found = mean_pool(x, num)
    assert found.shape == (num, 5) and found.dtype == np.float32
    np.testing.assert_allclose(found, pooled_by_loops(x, num), atol=1e-6)


@pytest.mark.parametrize('case', ['long', 'short', 'exact'])
def test_pooling_is_that_of_ms_sl(shared, case):
    golden = np.load(shared / 'golden/mssl.npz')
    x = golden[f'sample_{case}_in']
    np.testing.assert_allclose(mean_pool(x, 4), golden[f'sample_{case}_avgfix4'], atol=1e-6)
    np.testing.assert_array_equal(unit_rows(x), golden[f'sample_{case}_l2'])
    found = PoolFeatures(8).transform(dict(features=x))['features']
    np.testing.assert_allclose(found, golden[f'sample_{case}_uniform8'], atol=1e-6)


def test_pool_features():
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    pool = TRANSFORMS.build(dict(type='PoolFeatures', num_frames=3))
    # Chunks of two rows; the very last row is left out of the last mean.
    assert pool.transform(dict(features=x))['features'].tolist() == [[1, 2], [5, 6], [8, 9]]
    assert PoolFeatures(6).transform(dict(features=x))['features'] is x, 'short enough'
    unit = PoolFeatures(3, normalise=True).transform(dict(features=x))['features']
    np.testing.assert_allclose(unit[2], np.array([8, 9]) / (145**0.5 + 1e-5), rtol=1e-6)
    short = PoolFeatures(8, normalise=True).transform(dict(features=x))['features']
    np.testing.assert_allclose(np.linalg.norm(short, axis=1), 1, atol=1e-4)
    with pytest.raises(ValueError, match='num_frames must be at least 1, not 0'):
        PoolFeatures(0)


def test_unit_rows_leave_zeros_alone():
    assert unit_rows(np.zeros((1, 3), np.float32)).tolist() == [[0, 0, 0]]


@pytest.fixture
def words(tmp_path):
    path = tmp_path / 'roberta_tvr_query_feat.hdf5'
    with h5py.File(path, 'w') as file:
        file['v#enc#0'] = np.arange(8.0).reshape(4, 2)
        file['v#enc#1'] = np.zeros((0, 2))
        file['v#enc#2'] = np.ones(2)
    return str(path)


def test_load_text_features(words):
    load = TRANSFORMS.build(dict(type='LoadTextFeatures', path=words, max_words=3))
    found = load.transform(dict(text_id='v#enc#0', text='a dog runs'))['token_features']
    assert found.tolist() == [[0, 1], [2, 3], [4, 5]] and found.dtype == np.float32
    unit = LoadTextFeatures(words, normalise=True).transform(dict(text_id='v#enc#0'))
    np.testing.assert_allclose(unit['token_features'][1], np.array([2, 3]) / 13**0.5, rtol=1e-5)
    load.check([dict(text_id='v#enc#0'), dict(text_id='v#enc#1')])


def test_texts_without_features(words):
    load = LoadTextFeatures(words)
    with pytest.raises(KeyError, match=r"hdf5: no features of 1 of 2 texts, e.g. \['v#enc#9'\]"):
        load.check([dict(text_id='v#enc#0'), dict(text_id='v#enc#9')])
    with pytest.raises(ValueError, match=r"'v#enc#1': expected .F, D. with F > 0, found \(0, 2"):
        load.transform(dict(text_id='v#enc#1'))
    with pytest.raises(ValueError, match=r"'v#enc#2': expected .*, found \(2,\)"):
        load.transform(dict(text_id='v#enc#2'))
    with pytest.raises(ValueError, match='max_words must be at least 1, not 0'):
        LoadTextFeatures(words, max_words=0)


# -- trimming ----------------------------------------------------------------------------------


@pytest.mark.parametrize('rows', [3, 20, 33])
def test_trimming_is_that_of_hgr(shared, rows):
    golden = np.load(shared / 'golden/hgr.npz')
    length = int(golden[f'trim_len_{rows}'])
    found = TrimFeatures(20).transform(dict(features=golden[f'trim_in_{rows}']))['features']
    np.testing.assert_array_equal(found, golden[f'trim_out_{rows}'][:length])
    assert not golden[f'trim_out_{rows}'][length:].any()  # theirs is padded


def test_trimming():
    """Nearest rows: of 0, 2.25, 4.5, 6.75, 9 halves go to the even one."""
    trim = TRANSFORMS.build(dict(type='TrimFeatures', num_frames=5))
    features = np.arange(10, dtype=np.float32)[:, None]
    assert trim.transform(dict(features=features))['features'][:, 0].tolist() == [0, 2, 4, 7, 9]
    assert trim.transform(dict(features=features[:5]))['features'].shape == (5, 1)
    assert TrimFeatures(1).transform(dict(features=features))['features'].tolist() == [[0]]
    with pytest.raises(ValueError, match='num_frames must be at least 1, not 0'):
        TrimFeatures(0)
