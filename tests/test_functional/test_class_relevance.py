"""Class relevance against sets and loops, the official matrices, and at the size of EPIC."""

import ast
import csv
import importlib
import resource
import time

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from mmvtr.functional.metrics.graded_relevance import (
    class_overlap,
    class_relevance,
    intersection_over_union,
)

module = importlib.import_module('mmvtr.functional.metrics.graded_relevance')


def padded(sets):
    rows = [torch.tensor(sorted(members), dtype=torch.int64) for members in sets]
    return pad_sequence(rows, batch_first=True, padding_value=-1)


def random_sets(generator, count, most, classes):
    """Lists of up to ``most`` classes, some empty, some with a class twice."""
    return [
        generator.integers(0, classes, generator.integers(0, most + 1)).tolist()
        for _ in range(count)
    ]


def reference(a, b):
    a, b = set(a), set(b)
    return len(a & b) / len(a | b) if a | b else 0.0


@pytest.mark.parametrize('rows', [3, 512])
def test_against_sets(monkeypatch, rows):
    monkeypatch.setattr(module, 'ROWS', rows)
    generator = np.random.default_rng(0)
    sizes = dict(verb=(1, 4), noun=(5, 9), scene=(3, 3))
    texts = {kind: random_sets(generator, 17, *size) for kind, size in sizes.items()}
    videos = {kind: random_sets(generator, 11, *size) for kind, size in sizes.items()}
    expected = np.mean(
        [[[reference(t, v) for v in videos[k]] for t in texts[k]] for k in sizes], axis=0
    )
    found = class_relevance(
        {k: padded(sets) for k, sets in texts.items()},
        {k: padded(sets) for k, sets in reversed(videos.items())},
    )
    assert found.dtype == torch.float32
    assert len(np.unique(expected)) > 20 and (expected == 0).any()
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize('rows', [3, 512])
@pytest.mark.parametrize('kinds', [1, 2, 3])
def test_overlap_against_sets(monkeypatch, rows, kinds):
    """A class of every kind in common: neither one kind nor equal sets of none are enough."""
    monkeypatch.setattr(module, 'ROWS', rows)
    generator = np.random.default_rng(kinds)
    sizes = dict(list(dict(verb=(2, 4), noun=(5, 9), scene=(3, 3)).items())[:kinds])
    texts = {kind: random_sets(generator, 17, *size) for kind, size in sizes.items()}
    videos = {kind: random_sets(generator, 11, *size) for kind, size in sizes.items()}
    expected = [
        [all(set(texts[k][t]) & set(videos[k][v]) for k in sizes) for v in range(11)]
        for t in range(17)
    ]
    texts, videos = ({k: padded(x) for k, x in side.items()} for side in (texts, videos))
    found = class_overlap(texts, dict(reversed(videos.items())))
    assert found.dtype == torch.bool and found.tolist() == expected
    assert found.any() and not found.all()
    assert (class_relevance(texts, videos)[found] > 0).all()


def test_overlap_of_none():
    empty, some = torch.empty(2, 0, dtype=torch.int64), torch.tensor([[4, 4], [5, -1]])
    same = dict(verb=some, noun=some)
    assert torch.equal(class_overlap(same, same), torch.eye(2).bool())
    assert not class_overlap(dict(verb=some, noun=empty), dict(verb=some, noun=empty)).any()
    assert class_overlap(dict(verb=some[:0]), dict(verb=some)).shape == (0, 2)
    assert class_overlap(dict(verb=some), dict(verb=some[:0])).shape == (2, 0)


def test_equal_sets_are_exactly_one():
    """Metrics ask for relevance == 1, so no rounding may come between, in any precision around."""
    generator = np.random.default_rng(1)
    sets = [generator.permutation(50)[:n].tolist() for n in range(1, 50)]
    classes = dict(verb=padded(sets), noun=padded(sets), scene=padded(sets))
    with torch.autocast('cpu', torch.bfloat16):
        found = class_relevance(classes, classes)
    assert found.dtype == torch.float32 and torch.equal(found == 1, torch.eye(49).bool())
    torch.testing.assert_close(found, class_relevance(classes, classes), rtol=0, atol=0)


def test_large_class_numbers():
    """Hashed classes are as good as small ones."""
    a, b = torch.tensor([[2**48 - 1, 7]]), torch.tensor([[2**48 - 1, -1], [2**48 - 2, 7]])
    assert intersection_over_union(a, b).tolist() == [[0.5, pytest.approx(1 / 3)]]


def test_nothing_in_common():
    empty, some = torch.empty(2, 0, dtype=torch.int64), torch.tensor([[4, 4], [5, -1]])
    assert intersection_over_union(empty, some).tolist() == [[0, 0], [0, 0]]
    assert intersection_over_union(empty, torch.full((1, 3), -1)).tolist() == [[0], [0]]
    assert intersection_over_union(some[:0], some).shape == (0, 2)
    assert intersection_over_union(some, some[:0]).shape == (2, 0)


def test_golden(shared):
    """The official matrix is videos x captions."""
    golden = np.load(shared / 'golden/epic_ndcg_map.npz')
    sides = [
        dict(
            verb=torch.from_numpy(golden[f'{side}_verb'])[:, None],
            noun=torch.from_numpy(golden[f'{side}_nouns_pad-1']),
        )
        for side in ('caption', 'video')
    ]
    np.testing.assert_allclose(class_relevance(*sides).T, golden['rel'], atol=1e-6)


@pytest.mark.nightly
def test_the_size_of_epic(shared):
    """Shares of the official matrix; below 10 s and 2 GB."""
    folder = shared / 'data/EPIC100/retrieval_annotations'
    with open(folder / 'EPIC_100_retrieval_test.csv') as file:
        clips = list(csv.DictReader(file))
    with open(folder / 'EPIC_100_retrieval_test_sentence.csv') as file:
        sentences = [row['narration_id'] for row in csv.DictReader(file)]
    place = {row['narration_id']: i for i, row in enumerate(clips)}
    videos = dict(
        verb=padded([int(row['verb_class'])] for row in clips),
        noun=padded(ast.literal_eval(row['all_noun_classes']) for row in clips),
    )
    texts = {kind: sets[[place[name] for name in sentences]] for kind, sets in videos.items()}
    memory, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    relevance = class_relevance(texts, videos)
    assert time.perf_counter() - begin < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 1.5e6  # KiB
    assert relevance.shape == (3842, 9668)
    shares = [(relevance == 1), (relevance > 0), (relevance >= 0.4), (relevance >= 0.75)]
    percent = [100 * share.float().mean().item() for share in shares]
    assert percent == pytest.approx([0.16836, 11.3744, 10.2062, 0.26178], rel=1e-4)
    assert (relevance == 1).sum(1).min() == (relevance == 1).sum(0).min() == 1


ONE = torch.zeros(1, 1, dtype=torch.int64)


@pytest.mark.parametrize(
    'texts, videos, message',
    [
        ({}, {}, 'same kinds of classes'),
        (dict(verb=ONE), dict(verb=ONE, noun=ONE), r"not \['verb'\] and \['noun', 'verb'\]"),
        (dict(verb=ONE[0]), dict(verb=ONE), r"text classes 'verb' must be .*torch.int64 \[1\]"),
        (dict(verb=ONE), dict(verb=ONE.float()), r"video classes 'verb' .* torch.float32"),
        (dict(a=ONE, b=ONE), dict(a=ONE, b=ONE.expand(2, 1)), r"video .* row per video, .*'b': 2}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize('function', [class_relevance, class_overlap])
def test_what_it_refuses(function, texts, videos, message):
    with pytest.raises(ValueError, match=message):
        function(texts, videos)
