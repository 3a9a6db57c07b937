"""Values of single queries: their means are the numbers; groups; their file."""

import numpy as np
import pytest
import torch
from scipy.sparse import bmat, csr_matrix
from scipy.sparse.csgraph import connected_components

from mmvtr.evaluation import JudgedMetric, RelevanceMetric, RetrievalMetric, SemanticMetric
from mmvtr.evaluation.queries import groups, queries_of, read_queries, write_queries
from mmvtr.structures import Directed, Relation

TEXTS, VIDEOS = 40, 15


@pytest.fixture
def relation():
    draw = torch.Generator().manual_seed(0)
    positives = torch.zeros(TEXTS, VIDEOS, dtype=torch.bool)
    positives[torch.arange(TEXTS - 2), torch.arange(TEXTS - 2) % (VIDEOS - 1)] = True
    relevance = torch.rand(TEXTS, VIDEOS, generator=draw).round(decimals=1)
    relevance[3] = 0  # a text without a match
    truth = positives | (torch.rand(TEXTS, VIDEOS, generator=draw) < 0.1)
    grades = torch.where(torch.rand(TEXTS, VIDEOS, generator=draw) < 0.5, relevance, torch.nan)
    return Relation(positives, truth=truth, relevance=relevance, judgments=Directed(grades, grades))


METRICS = [
    RetrievalMetric(also_recall_at=(20,)),
    RetrievalMetric(v2t_protocols=()),
    SemanticMetric(k=5),
    RelevanceMetric(),
    RelevanceMetric(without_match='zero', k=3),
    JudgedMetric(at_least=0.5, k=(1, 3)),
]


@pytest.mark.parametrize('metric', METRICS)
def test_means_of_queries_add_up_to_the_numbers(metric, relation):
    draw = torch.Generator().manual_seed(1)
    scores = [torch.rand(TEXTS, VIDEOS, generator=draw).round(decimals=1) for _ in range(2)]
    for given in (scores[0], Directed(*scores)):
        numbers = metric({'scores': given}, relation)
        found = metric.by_query(given, relation)
        lengths = dict(t2v=TEXTS, v2t=VIDEOS)
        assert {'rsum', 'avg_nDCG', 't2v_mAP', 't2v_SumR', 'avg_nDCG3', 't2v_bpref'} & found.keys()
        for key, sides in found.items():
            assert {side: len(x) for side, x in sides.items()} == {s: lengths[s] for s in sides}
            total = sum(float(np.nanmean(x.numpy())) for x in sides.values())
            assert total == pytest.approx(numbers[key], rel=1e-6), key


def test_groups_are_connected_components():
    draw = np.random.default_rng(3)
    for share in (0.0, 0.01, 0.03, 0.1):
        positives = draw.random((60, 25)) < share
        pairs = csr_matrix(positives)
        _, expected = connected_components(bmat([[None, pairs], [pairs.T, None]]), directed=False)
        found = torch.cat(groups(torch.from_numpy(positives))).numpy()
        same = found[:, None] == found
        assert np.array_equal(same, expected[:, None] == expected)


def test_a_file_holds_all_transforms_and_groups(tmp_path, relation):
    scores = torch.rand(TEXTS, VIDEOS, generator=torch.Generator().manual_seed(2))
    other = Directed(scores.flip(0), scores)
    found = queries_of([METRICS[0], METRICS[2]], scores, relation, dict(sinkhorn=other))
    assert {'retrieval/rsum', 'semantic/v2t_P1', 'sinkhorn/retrieval/t2v_R1'} <= found.values.keys()
    write_queries(tmp_path / 'queries.npz', found)
    read = read_queries(tmp_path / 'queries.npz')
    assert read.values.keys() == found.values.keys()
    for key in found.values:
        for one, other in zip(read.parts(key)[0], found.parts(key)[0]):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    arrays, of = read.parts('retrieval/rsum')
    assert [len(x) for x in arrays] == [len(x) for x in of] == [TEXTS, VIDEOS]
    assert of[0][0] == of[0][VIDEOS - 1] == of[1][0] != of[0][1]
    assert read.parts('retrieval/t2v_MdR') == ([], [])
