import math

import pytest
import torch

from mmvtr.functional.losses.contrastive import contrastive
from mmvtr.functional.losses.ranking import margin_ranking
from mmvtr.functional.losses.text_frame import matched_frames, text_frame

P, V, F = 7, 3, 5
LENGTHS = (5, 3, 4)


@pytest.fixture
def case():
    """Scores [P, F] with the frames of the own video, mask, videos, A^f; float64.

    Pairs 0 and 2 have the same best frame, and so have 1 and 6; video 2 has one text.
    """
    generator = torch.Generator().manual_seed(3)
    videos = torch.tensor([0, 1, 0, 0, 1, 2, 1])
    scores = torch.rand(P, F, generator=generator, dtype=torch.float64)
    scores[torch.arange(P), torch.tensor([3, 0, 3, 1, 2, 0, 0])] += 1
    scores[4, 4] = 9.0  # padding
    mask = torch.arange(F) < torch.tensor(LENGTHS)[videos, None]
    ambiguous = (torch.rand(P, F, generator=generator) < 0.4) & mask
    return scores, mask, videos, ambiguous


def best(scores, mask, p):
    valid = [s for s, real in zip(scores[p].tolist(), mask[p].tolist()) if real]
    return valid.index(max(valid))


def contrast_terms(scores, mask, videos, ambiguous):
    """Eq. 8 and 9 of each pair, for the frames of its video and the texts of that video."""
    frames, texts = [], []
    e = scores.exp().tolist()
    k = [best(scores, mask, p) for p in range(P)]
    for p in range(P):
        own = e[p][k[p]]
        others = [f for f in range(LENGTHS[videos[p]]) if f != k[p]]
        shared = sum(e[p][f] for f in others if ambiguous[p, f])
        rest = sum(e[p][f] for f in others)
        frames.append(-math.log((own + shared) / (own + rest)))
        others = [q for q in range(P) if videos[q] == videos[p] and k[q] != k[p]]
        shared = sum(e[q][k[p]] for q in others if ambiguous[q, k[p]])
        rest = sum(e[q][k[p]] for q in others)
        texts.append(-math.log((own + shared) / (own + rest)))
    return frames, texts


def test_contrast_equals_equations_8_and_9(case):
    scores, mask, videos, ambiguous = case
    expected = contrast_terms(*case)
    plain = contrast_terms(*case[:3], torch.zeros_like(case[3]))
    for terms, without in zip(expected, plain):
        assert sum(term > 0.01 for term in terms) > 1 and sum(without) > sum(terms) + 0.1
    frames, texts = text_frame(scores, mask, videos, ambiguous=ambiguous)
    for side, direction, terms in ((frames, 't2v', expected[0]), (texts, 'v2t', expected[1])):
        value = contrastive(**side._asdict(), form='own_pair', direction=direction)
        assert value.item() == pytest.approx(sum(terms) / P, rel=1e-12)


def test_ranking_equals_equations_11_and_12_over_all_negatives(case):
    scores, mask, videos, ambiguous = case
    s, k = scores.tolist(), [best(scores, mask, p) for p in range(P)]

    def term(values, margin, own):
        hinges = [max(0.0, margin + x - own) for x in values]
        return sum(hinges) / len(hinges) if hinges else 0.0

    totals = [0.0, 0.0]
    for p in range(P):
        own = s[p][k[p]]
        for kind, margin in ((True, 0.8), (False, 1.3)):
            values = [
                s[p][f]
                for f in range(LENGTHS[videos[p]])
                if f != k[p] and bool(ambiguous[p, f]) == kind
            ]
            totals[0] += term(values, margin, own) / P
            values = [
                s[q][k[p]]
                for q in range(P)
                if videos[q] == videos[p] and k[q] != k[p] and bool(ambiguous[q, k[p]]) == kind
            ]
            totals[1] += term(values, margin, own) / P
    options = dict(margin=1.3, ambiguous_margin=0.8, average='anchors')
    for side, direction, total in zip(
        text_frame(*case[:3], ambiguous=ambiguous), ('t2v', 'v2t'), totals
    ):
        value = margin_ranking(**side._asdict(), direction=direction, **options)
        assert total > 0.01 and value.item() == pytest.approx(total, rel=1e-12)


def in_one_matrix(scores, mask, videos, ambiguous):
    """All pairs x all frames of all videos, weight 0 outside the own video."""
    matrices = [torch.full((P, V * F), fill, dtype=torch.float64) for fill in (7.0, 0.0, 0.0, 0.0)]
    for p in range(P):
        own = slice(int(videos[p]) * F, (int(videos[p]) + 1) * F)
        matrices[0][p, own], matrices[1][p, own] = scores[p], mask[p].double()
        matrices[2][p, own] = ambiguous[p].double()
        matrices[3][p, int(videos[p]) * F + best(scores, mask, p)] = 1
    return dict(
        scores=matrices[0],
        weights=matrices[1],
        ambiguous=matrices[2].bool(),
        positives=matrices[3].bool(),
    )


@pytest.mark.parametrize('direction', ['t2v', 'v2t'])
def test_equals_the_matrix_of_all_frames(case, direction):
    whole = in_one_matrix(*case)
    scores, mask, videos, ambiguous = case
    sides = text_frame(scores, mask, videos, ambiguous=ambiguous)
    side = (sides.frames if direction == 't2v' else sides.texts)._asdict()
    for loss, options in (
        (contrastive, dict(form='own_pair', temperature=0.3)),
        (margin_ranking, dict(negatives='hardest', positive='mean', average='anchors')),
        (margin_ranking, dict(negatives='all', positive='own', margin=0.9)),
    ):
        value = loss(**side, direction=direction, **options)
        torch.testing.assert_close(value, loss(**whole, direction=direction, **options))
    side, whole = ({k: v for k, v in x.items() if k != 'ambiguous'} for x in (side, whole))
    for form in ('pooled', 'outer_sum'):
        value = contrastive(**side, form=form, direction=direction)
        torch.testing.assert_close(value, contrastive(**whole, form=form, direction=direction))


def test_gradients_reach_valid_frames_only(case):
    scores, mask, videos, ambiguous = case
    scores = scores.clone().requires_grad_()

    def loss(s):
        frames, texts = text_frame(s, mask, videos, ambiguous=ambiguous)
        return sum(
            contrastive(**side._asdict(), form='own_pair', direction=direction)
            + margin_ranking(**side._asdict(), direction=direction, margin=0.81, average='anchors')
            for side, direction in ((frames, 't2v'), (texts, 'v2t'))
        )

    assert torch.autograd.gradcheck(loss, (scores,))
    (gradient,) = torch.autograd.grad(loss(scores), scores)
    assert not gradient[~mask].any() and (gradient[mask] != 0).float().mean() > 0.8


def test_half_precision_empty_sets_and_no_pairs(case):
    scores, mask, videos, ambiguous = case
    exact = text_frame(scores, mask, videos)
    half = text_frame(scores.half(), mask, videos)
    for side, direction in ((0, 't2v'), (1, 'v2t')):
        options = dict(form='own_pair', direction=direction)
        value = contrastive(**half[side]._asdict(), **options)
        assert value.item() == pytest.approx(
            contrastive(**exact[side]._asdict(), **options).item(), abs=2e-3
        )
        everything = text_frame(scores, mask, videos, ambiguous=mask)[side]
        assert contrastive(**everything._asdict(), **options).item() == 0
    nothing = text_frame(scores[:0], mask[:0], videos[:0])
    assert contrastive(**nothing.frames._asdict(), direction='t2v').item() == 0
    assert margin_ranking(**nothing.texts._asdict(), direction='v2t').item() == 0


def test_ties_take_the_first_frame():
    scores = torch.tensor([[0.2, 0.7, 0.7, 0.9]])
    mask = torch.tensor([[True, True, True, False]])
    assert matched_frames(scores, mask).tolist() == [1]


def test_bad_input(case):
    scores, mask, videos, _ = case
    with pytest.raises(ValueError, match='differ'):
        text_frame(scores, mask[:, :2], videos)
    mask = mask.clone()
    mask[4] = False
    with pytest.raises(ValueError, match='pair 4 has no valid frame'):
        text_frame(scores, mask, videos)
