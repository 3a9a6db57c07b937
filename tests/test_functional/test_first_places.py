"""What comes first and how surely it holds, against loops."""

import pytest
import torch

from mmvtr.functional import as_tiles, expected_truth, first_places, sure_first
from mmvtr.functional.metrics.first_places import SHARE


def drawn(queries=9, gallery=6, seed=0):
    """Scores, how surely items hold, and how surely they imply each other."""
    generator = torch.Generator().manual_seed(seed)
    scores, truth = torch.randn(2, queries, gallery, generator=generator).double()
    implied = torch.rand(gallery, gallery, generator=generator).double()
    return scores, truth.sigmoid(), implied.fill_diagonal_(1.0)


def order(scores):
    return scores.argsort(dim=1, descending=True, stable=True).tolist()


@pytest.mark.parametrize('places', [1, 3, 6])
def test_one_order_first_then_another(places):
    scores, leaders, _ = drawn()
    found = first_places(scores, leaders, places=places)
    for row, own, leading in zip(order(found), order(scores), order(leaders)):
        first = leading[:places]
        assert row == first + [item for item in own if item not in first]
    untouched = found <= scores.amax(1, keepdim=True)
    assert torch.equal(found[untouched], scores[untouched])
    assert (~untouched).sum(1).eq(places).all()


@pytest.mark.parametrize('temperature', [0.05, 1.0])
@pytest.mark.parametrize('entries', [1, 12, 10**6])
def test_expected_truth_is_what_the_likely_texts_imply(temperature, entries):
    scores, _, implied = drawn()
    expected = torch.zeros_like(scores)
    for i in range(len(scores)):
        weights = [(s / temperature).exp() for s in scores[i]]
        for b in range(scores.shape[1]):
            expected[i, b] = sum(w * implied[a, b] for a, w in enumerate(weights)) / sum(weights)
    tiles = as_tiles(implied, entries=entries)
    for known in (implied, tiles):
        found = expected_truth(scores, known, temperature=temperature)
        torch.testing.assert_close(found, expected)
    own = torch.eye(scores.shape[1]).double()
    found = expected_truth(scores, own, temperature=temperature)  # nothing but itself
    torch.testing.assert_close(found, (scores / temperature).softmax(1))


def test_the_default_temperature_is_a_share_of_what_each_query_reaches():
    scores, _, implied = drawn()
    found = expected_truth(scores, implied)
    for row, own in zip(found, scores):
        values = own.tolist()
        temperature = SHARE * (max(values) - sum(values) / len(values))
        alone = expected_truth(own[None], implied, temperature=temperature)[0]
        torch.testing.assert_close(row, alone)
    # Of any unit, and of each query alone.
    torch.testing.assert_close(expected_truth(70 * scores - 3, implied), found)
    torch.testing.assert_close(expected_truth(scores[2:3], implied), found[2:3])
    alike = expected_truth(torch.full((1, 6), 0.4), torch.eye(6))
    torch.testing.assert_close(alike, torch.full((1, 6), 1 / 6))


def test_expected_truth_has_gradients():
    scores, _, implied = drawn(3, 4)
    scores, implied = scores.requires_grad_(), implied.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda s, p: expected_truth(s, p, temperature=0.5), (scores, implied)
    )


@pytest.mark.parametrize('sure', [0.0, 0.5, 0.7, 1.0])
@pytest.mark.parametrize('places', [1, 3])
def test_the_best_scored_of_what_is_sure_comes_first(sure, places):
    scores, truth, _ = drawn()
    found = order(sure_first(scores, truth, sure=sure, places=places))
    several = []
    for row, s, p in zip(found, scores.tolist(), truth.tolist()):
        held = sorted((j for j in range(6) if p[j] >= sure), key=lambda j: -s[j])
        rest = sorted((j for j in range(6) if p[j] < sure), key=lambda j: -p[j])
        first = (held + rest)[:places]
        assert row == first + [j for j in sorted(range(6), key=lambda j: -s[j]) if j not in first]
        several.append(len(held))
    if sure == 0:
        assert found == order(scores)
    if sure == 0.7:
        assert min(several) < 3 <= max(several)  # rows with fewer than there are places, or not


@pytest.mark.parametrize('scale, shift', [(1e-9, 0.0), (1.0, 1e6), (1e9, -1e12), (1.0, 0.0)])
def test_the_order_of_scores_is_kept_at_any_scale(scale, shift):
    scores, *_ = drawn()
    scores = (scores.float() * scale + shift).clone()
    scores[:, 0] = -1e30  # as where something was left out
    found = sure_first(scores, torch.ones_like(scores), sure=1.0)
    assert found.argmax(1).tolist() == scores.argmax(1).tolist()


def test_of_equals_the_first_comes_first():
    scores, truth = torch.tensor([[0.1, 0.5, 0.5]]), torch.tensor([[1.0, 0.9, 0.9]])
    assert sure_first(scores, truth, sure=0.8).argmax(1).item() == 1


def test_what_all_texts_imply_is_sure():
    scores, *_ = drawn(200)
    truth = expected_truth(scores.float(), torch.ones(6, 6), temperature=0.3)
    found = sure_first(scores, truth, sure=1.0)
    assert found.argmax(1).tolist() == scores.argmax(1).tolist()


@pytest.mark.parametrize('texts, labels', [(16384, 3), (5000, 2)])
def test_what_holds_by_all_of_many_texts_is_sure(texts, labels):
    scores = torch.randn(200, texts, generator=torch.Generator().manual_seed(1))
    truth = expected_truth(scores, torch.ones(texts, labels), temperature=0.5)
    assert truth.max() <= 1
    own = torch.randn(200, labels, generator=torch.Generator().manual_seed(2))
    assert torch.equal(sure_first(own, truth, sure=1.0).argmax(1), own.argmax(1))


def test_autocast_changes_nothing():
    scores, _, implied = (x.float() for x in drawn())
    expected = expected_truth(scores, implied, temperature=0.5)
    with torch.autocast('cpu', torch.bfloat16):
        assert torch.equal(expected_truth(scores, implied, temperature=0.5), expected)


def test_a_general_text_comes_first_where_the_specific_ones_disagree():
    # Texts 0 and 1 are told apart by little, and both imply text 2, which scores lowest.
    implied = torch.tensor([[1.0, 0.1, 0.9], [0.1, 1.0, 0.9], [0.1, 0.1, 1.0]])
    scores = torch.tensor([[0.31, 0.30, 0.1], [0.9, 0.1, 0.1]])
    truth = expected_truth(scores, implied, temperature=0.05)
    assert order(sure_first(scores, truth, sure=0.8)) == [[2, 0, 1], [0, 1, 2]]


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    scores, truth, implied = (x.to(dtype) for x in drawn())
    wide = expected_truth(scores.float(), implied.float(), temperature=0.1)
    found = expected_truth(scores, implied, temperature=0.1)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, wide)
    first = sure_first(scores, truth, sure=0.6)
    torch.testing.assert_close(first, sure_first(scores.float(), truth.float(), sure=0.6))


def _wrong(scores, truth, implied):
    nan = torch.full_like(scores, float('nan'))
    return [
        (lambda: first_places(scores, truth[:, 1:]), r'leaders \[9, 5\] differ'),
        (lambda: first_places(nan, truth), 'scores'),
        (lambda: first_places(scores, nan), 'leaders'),
        (lambda: first_places(scores, truth, places=0), 'places must be 1 to 6, .* not 0'),
        (lambda: first_places(scores, truth, places=7), 'places must be 1 to 6, .* not 7'),
        (lambda: expected_truth(scores, implied[1:], temperature=1.0), r'implied is \[5, 6\]'),
        (lambda: expected_truth(scores, implied, temperature=0.0), 'temperature must be positive'),
        (lambda: expected_truth(nan, implied, temperature=1.0), 'scores'),
        (lambda: expected_truth(scores, nan[:6], temperature=1.0), 'implied'),
        (lambda: sure_first(scores, truth, sure=1.1), r'sure must lie in \[0, 1\], not 1.1'),
        (lambda: sure_first(scores, truth[1:], sure=0.5), r'truth \[8, 6\] differ'),
        (lambda: sure_first(scores, nan, sure=0.5), 'truth'),
    ]


@pytest.mark.parametrize('number', range(12))
def test_bad_input_is_named(number):
    call, said = _wrong(*drawn())[number]
    with pytest.raises(ValueError, match=said):
        call()
