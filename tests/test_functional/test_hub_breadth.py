"""Breadth of items over clusters of queries, against loops that count."""

import pytest
import torch

from mmvtr.functional import hub_breadth


@pytest.mark.parametrize('clusters', [1, 4, 5])
def test_it_counts_in_more_than_half_of_the_clusters(clusters):
    random = torch.Generator().manual_seed(clusters)
    found = torch.rand(60, 9, generator=random).topk(3, dim=1).indices
    group = torch.cat([torch.arange(clusters), torch.randint(clusters, (60,), generator=random)])
    group = group[:60]
    breadth = hub_breadth(found, group, items=9)
    for item in range(9):
        shares = []
        for cluster in range(clusters):
            lists = found[group == cluster].tolist()
            shares.append(sum(item in one for one in lists) / len(lists))
        reached = [sum(x >= share for x in shares) > clusters / 2 for share in shares]
        expected = max(share for share, good in zip(shares, reached) if good)
        assert breadth[item].item() == pytest.approx(expected)


def test_many_queries_of_one_cluster_make_no_breadth():
    found = torch.tensor([[0]] * 90 + [[1]] * 5 + [[2]] * 5)
    breadth = hub_breadth(found, torch.tensor([0] * 90 + [1] * 5 + [2] * 5), items=4)
    assert breadth.tolist() == [0, 0, 0, 0]
    everywhere = hub_breadth(torch.zeros(9, 1).long(), torch.arange(9) % 3, items=2)
    assert everywhere.tolist() == [1, 0]


FOUND, GROUP = torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 1])


@pytest.mark.parametrize(
    'given, said',
    [
        (dict(found=FOUND[:0], clusters=GROUP[:0]), 'not empty'),
        (dict(clusters=GROUP[:1]), 'must be .queries, k.'),
        (dict(items=2), 'items must be 0 to 1'),
        (dict(found=FOUND - 1), 'items must be 0 to 2'),
        (dict(clusters=GROUP - 1), 'clusters 0 or more'),
        (dict(clusters=GROUP * 2), 'cluster 1 has no queries'),
    ],
)
def test_what_does_not_fit_is_named(given, said):
    with pytest.raises(ValueError, match=said):
        hub_breadth(**{**dict(found=FOUND, clusters=GROUP, items=3), **given})
