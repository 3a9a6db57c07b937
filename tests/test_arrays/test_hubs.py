"""Planted items that everybody finds, and popular ones: who is a suspect."""

import doctest

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

import mmvtr
from mmvtr.arrays import hubs as module
from mmvtr.arrays.hubs import query_clusters
from mmvtr.functional import k_occurrence, relative_mass


def planted(count=400, topics=16, dim=32, popular=0.0, seed=0):
    """Texts and videos of topics, apart by modality; a share of the texts asks for video 0."""
    random = torch.Generator().manual_seed(seed)
    centre = torch.randn(topics, dim, generator=random)
    topic = torch.arange(count) % topics
    content = centre[topic] + torch.randn(count, dim, generator=random)
    noise = torch.randn(2, count, dim, generator=random)
    texts, videos = content + 0.7 * noise[0], content + 0.7 * noise[1]
    asked = int(popular * count)
    texts[:asked] = videos[0] + 0.7 * noise[0, :asked]
    texts[:, 0], videos[:, 0] = 6, -2  # a gap, as encoders of two modalities have it
    return normalize(texts, dim=1), normalize(videos, dim=1)


def test_an_item_at_the_mean_of_the_queries_is_found():
    texts, videos = planted()
    others = planted(seed=1)[0]
    assert mmvtr.hub_report(texts, videos).suspects == []
    videos[9] = normalize(others.mean(0), dim=0)
    report = mmvtr.hub_report(texts, videos, ids=[f'clip{i}' for i in range(400)])
    assert [one.id for one in report.suspects] == ['clip9']
    (one,) = report.suspects
    assert one.share > 0.5 and one.breadth > 0.5 and report.mass[9] > 20
    assert 'clip9: in the first 8 for ' in str(report) and '1 of 400 items' in str(report)


def test_a_popular_item_is_none():
    texts, videos = planted(popular=0.3)
    report = mmvtr.hub_report(texts, videos)
    assert report.share[0] > 0.25 and report.mass[0] == report.mass.max()
    assert report.suspects == []


def test_shares_and_masses_are_those_of_the_functions():
    texts, videos = planted(count=200)
    report = mmvtr.hub_report(3 * texts.numpy(), videos.numpy())
    scores = texts @ videos.T
    assert report.k == 4 and report.queries == 200
    torch.testing.assert_close(report.share * 200, k_occurrence(scores, k=4))
    gap = (scores.amax(1) - scores.mean(1)).mean().item()
    expected = relative_mass(scores, temperature=0.2 * gap)
    torch.testing.assert_close(report.mass, expected, rtol=1e-3, atol=1e-6)


def test_many_queries_are_drawn(monkeypatch):
    monkeypatch.setattr(module, 'MOST', 100)
    texts, videos = planted()
    videos[9] = normalize(texts.mean(0), dim=0)
    report = mmvtr.hub_report(texts, videos)
    assert report.queries == 100 and [one.id for one in report.suspects] == [9]
    assert report.share.sum().item() == pytest.approx(report.k)


def test_retrieve_tells_suspects_by_its_bank():
    texts, videos = planted()
    bank = planted(seed=1)[0]
    videos[9] = normalize(bank.mean(0), dim=0)
    names = [f'clip{i}' for i in range(400)]
    for transform in (None, 'sinkhorn'):
        found = mmvtr.retrieve(texts, videos, bank, transform, ids=names).hubs.suspects
        assert [one.id for one in found] == ['clip9']
    assert mmvtr.retrieve(texts, videos, None).hubs.suspects is None
    assert mmvtr.retrieve(texts, videos, bank[:20], None).hubs.suspects == []


def test_suspects_are_looked_for_once_and_only_when_read(monkeypatch):
    texts, videos = planted()
    looked = []
    monkeypatch.setattr(module, 'query_clusters', spied(looked, query_clusters))
    found = mmvtr.retrieve(texts, videos, planted(seed=1)[0], 'inverted_softmax')
    assert not looked
    assert found.hubs.suspects is found.hubs.suspects and len(looked) == 1


def spied(calls, function):
    return lambda *args: calls.append(args) or function(*args)


def test_clusters():
    centre = torch.eye(5).repeat_interleave(20, 0)
    points = normalize(centre + 0.1 * torch.randn(100, 5), dim=1)
    found = query_clusters(points, clusters=64)
    assert found.shape == (100,) and found.unique().tolist() == list(range(int(found.max()) + 1))
    for cluster in found.unique():
        assert len(centre[found == cluster].unique(dim=0)) == 1
    assert query_clusters(torch.ones(30, 2)).tolist() == [0] * 30
    assert torch.equal(query_clusters(points, seed=3), query_clusters(points, seed=3))


def test_the_examples_run():
    names = dict(torch=torch, mmvtr=mmvtr, query_clusters=query_clusters)
    result = doctest.testmod(module, globs=names)
    assert result.attempted and not result.failed


def test_where_all_items_are_alike_none_is_named():
    random = np.random.default_rng(0)
    texts, one = (random.normal(size=(n, 16)) + 1 for n in (80, 1))
    assert mmvtr.hub_report(texts, np.repeat(one, 100, 0)).suspects == []
    videos = random.normal(size=(200, 16))
    videos[3:15] = texts.mean(0)  # a dozen copies of a hub are hubs
    assert {x.id for x in mmvtr.hub_report(texts, videos).suspects} & {*range(3, 15)}


def test_constant_scores_give_all_items_the_same_mass():
    report = mmvtr.hub_report(np.ones((60, 2)), np.ones((1000, 2)))
    assert torch.equal(report.mass, torch.ones(1000).double())


@pytest.mark.parametrize(
    'texts, videos, said',
    [
        (np.eye(60)[:40], np.eye(60), '40 texts are too few'),
        (np.eye(60), np.eye(60)[:40], '40 videos are too few'),
        (np.eye(60), np.eye(70), 'width'),
    ],
)
def test_what_does_not_fit_is_named(texts, videos, said):
    with pytest.raises(ValueError, match=said):
        mmvtr.hub_report(texts, videos)
