"""A table of word vectors: what it looks up, and the files that it starts from."""

import numpy as np
import pytest
import torch

from mmvtr.models import WordVectors
from mmvtr.registry import MODELS

IDS = torch.tensor([[3, 1, 0], [2, 0, 0]])
MASK = torch.tensor([[True, True, False], [True, False, False]])


def test_words_and_their_mean():
    tower = MODELS.build(dict(type='WordVectors', words=4, dim=3))
    words, pooled = tower(IDS, MASK)
    assert tower.dim == 3 and torch.equal(words[0, 1], tower.table.weight[1])
    a, b = (tower.table.weight[i] / tower.table.weight[i].norm() for i in (3, 1))
    torch.testing.assert_close(pooled[0], (a + b) / (a + b).norm())


@pytest.mark.parametrize('suffix', ['npy', 'pth'])
def test_pretrained_rows(tmp_path, suffix):
    path, rows = tmp_path / f'vectors.{suffix}', np.arange(6.0).reshape(2, 3)
    np.save(path, rows) if suffix == 'npy' else torch.save(torch.from_numpy(rows), path)
    torch.manual_seed(0)
    expected = WordVectors(4, 3).table.weight
    torch.manual_seed(0)
    weight = WordVectors(4, 3, pretrained=str(path)).table.weight
    assert weight.requires_grad and weight.dtype == torch.float32
    np.testing.assert_array_equal(weight[:2].detach().numpy(), rows)
    assert torch.equal(weight[2:], expected[2:])


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match='WordVectors: token id 3 in text 0 of the batch'):
        WordVectors(3, 2)(IDS, MASK)
    with pytest.raises(FileNotFoundError, match='nothing.npy'):
        WordVectors(3, 2, pretrained=str(tmp_path / 'nothing.npy'))
    path = tmp_path / 'vectors.npy'
    for shape in ((5, 2), (3, 4), (3,)):
        np.save(path, np.zeros(shape))
        with pytest.raises(ValueError, match='vectors.npy: expected at most 4 vectors of width 2'):
            WordVectors(4, 2, pretrained=str(path))
    torch.save({'a': torch.zeros(2)}, tmp_path / 'vectors.pth')
    with pytest.raises(ValueError, match='vectors of width 2, found dict'):
        WordVectors(4, 2, pretrained=str(tmp_path / 'vectors.pth'))


@pytest.mark.parametrize('suffix', ['npy', 'pth'])
@pytest.mark.parametrize('value', [float('nan'), float('inf'), -float('inf')])
def test_vectors_that_are_not_finite_are_named_by_row(tmp_path, suffix, value):
    rows, path = np.ones((3, 2), np.float32), tmp_path / f'vectors.{suffix}'
    rows[1, 0] = value
    np.save(path, rows) if suffix == 'npy' else torch.save(torch.from_numpy(rows), path)
    with pytest.raises(ValueError, match=rf'vectors.{suffix}: {value} in row 1, column 0: expec'):
        WordVectors(3, 2, pretrained=str(path))
