"""Orders of queries are what their names say, and their figures are right."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / 'real')]

import orders as tool  # noqa: E402

QUERIES, ITEMS = 400, 60


def world(seed=0, noise=0.35):
    """Texts of which each has its own noise, whose size is the text's sigma."""
    random = np.random.default_rng(seed)
    items = random.normal(size=(ITEMS, 16))
    own = random.integers(ITEMS, size=QUERIES)
    sigma = np.exp(random.normal(size=QUERIES)) * noise
    texts = items[own] + sigma[:, None] * random.normal(size=(QUERIES, 16)) * 2
    texts, items = (
        torch.nn.functional.normalize(torch.from_numpy(x).float(), dim=1) for x in (texts, items)
    )
    logs = torch.from_numpy(sigma).log(), torch.zeros(ITEMS).double()
    return tool.Kept(texts @ items.t(), torch.from_numpy(own), 0.1, texts, items, dict(sigma=logs))


def rejections(found, kept, direction='t2v'):
    scores, right = kept.of(direction)
    wrong = ~right.gather(1, scores.argmax(1)[:, None])[:, 0]
    return {name: tool.figures(x, wrong)['rejection'] for name, x in found.items()}


def test_a_true_sigma_finds_errors_and_a_permuted_one_does_not():
    kept = world()
    found = rejections(tool.orders(kept, world(1), 't2v', torch.arange(QUERIES), 0), kept)
    assert found['sigma_query'] > 40 and abs(found['sigma_permuted']) < 15
    assert abs(found['calibrated'] - found['softmax']) < 8
    assert found['short_first'] == pytest.approx(-found['long_first'], abs=15)


def test_an_ensemble_of_itself_is_its_softmax():
    kept = world()
    for direction in tool.DIRECTIONS:
        said = tool.of_members(kept, [kept, kept], direction)
        softmax = tool.orders(kept, world(1), direction, torch.ones(QUERIES), 0)['softmax']
        assert torch.allclose(said['ensemble'], -(-softmax).exp(), atol=1e-5)
        assert said['disagreement'].abs().max() < 1e-9


def test_what_is_carried_is_fitted_on_val_alone():
    """Labels of test change nothing, and the regression of labels orders what it was fitted to."""
    kept, val = world(), world(1)
    other = kept._replace(own=kept.own.flip(0))
    members, of_val = [kept, world(2)], [val, world(3)]
    found, again = (tool.carried(x, val, members, of_val, 't2v') for x in (kept, other))
    for name in found:
        assert torch.equal(found[name], again[name])
    assert rejections(found, kept)['labels'] > rejections(found, kept)['carried'] - 40
    assert rejections(found, kept)['labels'] > 20


def test_figures_by_hand():
    wrong = torch.tensor([False, True, False, True])
    found = tool.figures(torch.tensor([0.1, 0.9, 0.2, 0.8]), wrong)
    assert found['rejection'] == pytest.approx(100)
    assert found['aurc'] == pytest.approx(100 * (0 + 0 + 1 / 3 + 1 / 2) / 4, abs=1e-3)
    assert found['recalls'][4] == 100 and found['recalls'][-1] == 50


def test_kept_and_read_it_is_the_same(tmp_path):
    kept = world()
    kept.write(tmp_path / 'x' / 'one.npz')
    read = tool.Kept.read(tmp_path / 'x' / 'one.npz')
    assert torch.equal(read.scores, kept.scores) and read.temperature == kept.temperature
    assert all(map(torch.equal, read.sigmas['sigma'], kept.sigmas['sigma']))
