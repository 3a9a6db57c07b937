"""Ranks against loops over queries, against CLIP4Clip's and CE's own numbers, and at chance."""

import itertools
import math

import numpy as np
import pytest
import torch

from mmvtr import functional as fn
from mmvtr.functional.metrics.ranks import RankCounts, caption_max, rank_counts, ranks, recall_at


def many_captions(texts=30, videos=7, *, levels=None, seed=0):
    """Scores and positives of texts with one video each; ``levels`` distinct scores make ties."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(texts, videos, generator=generator)
    if levels:
        scores = torch.randint(levels, (texts, videos), generator=generator).float()
    owner = torch.randint(videos, (texts,), generator=generator)
    return scores, torch.eye(videos, dtype=torch.bool)[owner]


def slow_ranks(scores, positives):
    """Mean rank over the tied, by definition, in python; rows ask."""
    result = []
    for row, matches in zip(scores.tolist(), positives.tolist()):
        own = [s for s, match in zip(row, matches) if match]
        others = [s for s, match in zip(row, matches) if not match]
        best = max(own, default=math.nan)
        rank = 1 + sum(s > best for s in others) + sum(s == best for s in others) / 2
        result.append(rank if own else math.nan)
    return torch.tensor(result, dtype=torch.float64)


def square(scores, dim=1):
    return ranks(scores, torch.eye(len(scores), dtype=torch.bool), dim=dim)


@pytest.mark.parametrize('levels', [None, 3, 1])
@pytest.mark.parametrize('tile', [1, 20, 10**6])
def test_ranks_follow_the_definition(levels, tile):
    scores, positives = many_captions(levels=levels)
    positives[:2] = False  # texts without a video
    positives[2:5, :2] = True  # and texts with several
    assert torch.equal(
        ranks(scores, positives, tile=tile).nan_to_num(-1),
        slow_ranks(scores, positives).nan_to_num(-1),
    )
    assert torch.equal(
        ranks(scores, positives, dim=0, tile=tile).nan_to_num(-1),
        slow_ranks(scores.t(), positives.t()).nan_to_num(-1),
    )


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16, torch.float64])
def test_ranks_in_any_precision(dtype):
    scores, positives = many_captions()
    scores = scores.to(dtype)
    assert torch.equal(ranks(scores, positives), slow_ranks(scores.double(), positives))


def test_equal_scores_rank_in_the_middle():
    assert square(torch.zeros(5, 5)).tolist() == [3.0] * 5


def test_infinite_scores_are_scores():
    scores = torch.tensor([[-torch.inf, 0.0], [torch.inf, torch.inf]])
    assert square(scores).tolist() == [2.0, 1.5]


@pytest.mark.parametrize('dim', [0, 1])
def test_nan_is_an_error_with_its_place(dim):
    scores, positives = many_captions()
    scores[3, 4] = torch.inf
    scores[4, 4] = -torch.inf
    ranks(scores, positives, dim=dim)
    scores[17, 5] = torch.nan
    with pytest.raises(ValueError, match=r'scores\[17, 5\] is NaN'):
        ranks(scores, positives, dim=dim)


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r'\[2, 3\].*\[3, 2\]'):
        ranks(torch.zeros(2, 3), torch.ones(3, 2, dtype=torch.bool))


@pytest.mark.parametrize('tile', [1, 20, 10**6])
def test_caption_max_is_the_best_of_a_videos_captions(tile):
    scores, positives = many_captions()
    positives[:, 3] = False
    grouped = caption_max(scores, positives, tile=tile)
    for u, v in itertools.product(range(7), repeat=2):
        own = scores[positives[:, u], v]
        assert grouped[u, v] == (own.max() if len(own) else -torch.inf)


def test_caption_max_leaves_out_videos_that_share_a_caption():
    scores = torch.tensor([[0.9, 0.8, 0.1], [0.2, 0.3, 0.4]])
    positives = torch.tensor([[1, 1, 0], [0, 0, 1]]).bool()
    grouped = caption_max(scores, positives)
    assert grouped[0, 1] == grouped[1, 0] == -torch.inf
    assert grouped[0, 0] == scores[0, 0] and grouped[2, 0] == scores[1, 0]
    assert ranks(grouped, torch.eye(3).bool(), dim=0).tolist() == [1.0, 1.0, 1.0]


def test_summaries_leave_unanswerable_queries_out():
    values = torch.tensor([1.0, 2.0, torch.nan, 7.0, 4.0]).double()
    assert recall_at(values, 2) == 0.5
    assert fn.median_rank(values) == 3
    assert fn.mean_rank(values) == 3.5


def all_orders(counts):
    """Every equally likely rank of the best match, by enumeration of one query's tie group."""
    above, tied, twins = (int(x) for x in counts)
    group = [False] * tied + [True] * twins
    orders = itertools.permutations(range(len(group)))
    return [above + 1 + next(i for i, x in enumerate(order) if group[x]) for order in orders]


@pytest.mark.parametrize('above, tied, twins', [(0, 4, 1), (2, 3, 2), (1, 0, 3), (3, 5, 1)])
def test_expectations_over_random_ties(above, tied, twins):
    counts = RankCounts(*(torch.tensor([x]).double() for x in (above, tied, twins)))
    orders = all_orders((above, tied, twins))
    for k in range(1, 10):
        share = np.mean([rank <= k for rank in orders])
        assert float(fn.expected_recall_at(counts, k)) == pytest.approx(share, abs=1e-12)
    assert float(fn.expected_mean_rank(counts)) == pytest.approx(np.mean(orders))
    assert float(fn.expected_median_rank(counts)) == np.median(orders)


def test_without_ties_the_expectations_are_the_numbers_themselves():
    scores, positives = many_captions()
    counts, exact = rank_counts(scores, positives), ranks(scores, positives)
    assert float(fn.expected_recall_at(counts, 3)) == pytest.approx(float(recall_at(exact, 3)))
    assert fn.expected_mean_rank(counts) == fn.mean_rank(exact)
    assert fn.expected_median_rank(counts) == fn.median_rank(exact)


def test_a_constant_matrix_is_chance():
    counts = rank_counts(torch.zeros(1).expand(1000, 1000), torch.eye(1000, dtype=torch.bool))
    for k in (1, 5, 10):
        assert float(fn.expected_recall_at(counts, k)) == pytest.approx(k / 1000)
    assert fn.expected_median_rank(counts) == fn.expected_mean_rank(counts) == 500.5


def test_clip4clip_golden(shared):
    """CLIP4Clip counts a rank per tied entry (60 for 40 rows): equal only where nothing ties."""
    golden = np.load(shared / 'golden' / 'clip4clip_metrics_square.npz')
    for direction, dim in (('t2v', 1), ('v2t', 0)):
        exact = square(torch.from_numpy(golden['sim']), dim)
        assert torch.equal(exact, torch.from_numpy(golden[f'{direction}.cols']).double() + 1)
        for k in (1, 5, 10):
            assert 100 * recall_at(exact, k) == golden[f'{direction}.R{k}']
        assert fn.median_rank(exact) == golden[f'{direction}.MedianR']
        assert fn.mean_rank(exact) == golden[f'{direction}.MeanR']
    tied = square(torch.from_numpy(golden['sim_ties']))
    assert len(tied) == golden['n_rows'] == 40
    assert len(golden['ties_t2v.cols']) == golden['n_rank_entries_with_ties'] == 60
    assert 100 * recall_at(tied, 1) == 37.5 and golden['ties_t2v.R1'] == 25.0


def test_ce_golden(shared):
    """Collaborative Experts averages ties too, and ranks a video's best caption among all."""
    golden = np.load(shared / 'golden' / 'ce_metrics.npz')
    captions = torch.from_numpy(golden['query_masks']).bool()  # [V, 5], some are missing
    present = captions.flatten()
    scores = torch.from_numpy(golden['sims'])[present]
    positives = torch.eye(len(captions), dtype=torch.bool).repeat_interleave(5, 0)[present]
    for direction, dim in (('t2v', 1), ('v2t', 0)):
        mine = ranks(scores, positives, dim=dim)
        recalls = {k: 100 * float(recall_at(mine, k)) for k in (1, 5, 10, 50)}
        gmean = math.prod(recalls[k] for k in (1, 5, 10)) ** (1 / 3)
        for k, recall in recalls.items():
            assert round(recall, 1) == golden[f'{direction}.R{k}']
        assert round(gmean, 1) == golden[f'{direction}.geometric_mean_R1-R5-R10']
        assert fn.median_rank(mine) == golden[f'{direction}.MedR']
        assert round(float(fn.mean_rank(mine)), 1) == golden[f'{direction}.MeanR']
    constant = ranks(torch.zeros_like(scores), positives)
    assert constant.unique().tolist() == [golden['t2v_const.MedR']] == [6.5]


def test_numpy_and_the_diagonal():
    scores = torch.rand(6, 6, generator=torch.Generator().manual_seed(0))
    expected = ranks(scores, torch.eye(6).bool(), dim=0)
    assert np.array_equal(ranks(scores.numpy(), dim=0), expected)
    assert np.array_equal(ranks(scores.numpy(), torch.eye(6).bool().numpy(), dim=0), expected)
    with pytest.raises(ValueError, match='not square'):
        ranks(scores[:5])
