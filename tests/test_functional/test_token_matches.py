"""Who carries a token-wise score, against loops, and against the scores themselves."""

import pytest
import torch
import torch.nn.functional as F

from mmvtr.functional.similarities.token_interaction import token_scores, token_weights
from mmvtr.functional.similarities.token_matches import token_matches

T, V, L, M, D = 4, 3, 5, 4, 3


@pytest.fixture
def tokens():
    """Unit words and frames, float64, rubbish as padding; text 0 and video 0 are full."""
    generator = torch.Generator().manual_seed(0)

    def units(*shape):
        return F.normalize(torch.randn(*shape, generator=generator, dtype=torch.float64), dim=-1)

    word_mask = torch.rand(T, L, generator=generator) < 0.6
    frame_mask = torch.rand(V, M, generator=generator) < 0.6
    word_mask[:, 2] = frame_mask[:, 1] = True
    word_mask[0] = frame_mask[0] = True
    return units(T, L, D) * (1 + 9 * ~word_mask[..., None]), word_mask, units(V, M, D), frame_mask


def loops(own, own_mask, others, other_mask, weights, official):
    """One side of one pair: weight, value and partner of each token."""
    rows = []
    for n in range(len(own)):
        if not own_mask[n]:
            rows.append((0.0, 0.0, -1))
            continue
        best, partner = -float('inf'), -1
        for m in range(len(others)):
            if other_mask[m]:
                dot = sum(float(x) * float(y) for x, y in zip(own[n], others[m]))
            elif official:
                dot = 0.0
            else:
                continue
            if dot > best:
                best, partner = dot, m if other_mask[m] else -1
        weight = 1 / int(own_mask.sum()) if weights is None else float(weights[n])
        rows.append((weight, best, partner))
    return rows


@pytest.mark.parametrize('side', ['both', 'words', 'frames'])
@pytest.mark.parametrize('official', [False, True])
@pytest.mark.parametrize('weighted', [False, True])
def test_loops_and_scores(tokens, side, official, weighted):
    words, word_mask, frames, frame_mask = tokens
    a = b = None
    if weighted:
        generator = torch.Generator().manual_seed(1)
        a, b = (
            token_weights(torch.randn(mask.shape, generator=generator), mask).double()
            for mask in (word_mask, frame_mask)
        )
    kwargs = dict(side=side, word_weights=a, frame_weights=b, official_mask=official)
    found = token_matches(*tokens, **kwargs)
    assert list(found) == (['words', 'frames'] if side == 'both' else [side])
    half = 0.5 if side == 'both' else 1.0
    for name, partners in found.items():
        for t in range(T):
            for v in range(V):
                text = words[t], word_mask[t]
                video = frames[v], frame_mask[v]
                if name == 'words':
                    expected = loops(*text, *video, None if a is None else a[t], official)
                else:
                    expected = loops(*video, *text, None if b is None else b[v], official)
                weight, value, partner = (torch.tensor(x) for x in zip(*expected))
                torch.testing.assert_close(partners.weight[t, v].double(), half * weight.double())
                torch.testing.assert_close(partners.value[t, v], value.double())
                assert torch.equal(partners.partner[t, v], partner)
    total = sum(partners.share.sum(-1) for partners in found.values())
    torch.testing.assert_close(total, token_scores(*tokens, **kwargs))


def test_padding_may_win_in_the_official_way():
    """All cosines are negative: the zeros of padding are the best partners."""
    words, frames = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[-1.0, 0.0], [0.0, 0.0]]])
    masks = torch.ones(1, 1, dtype=torch.bool), torch.tensor([[True, False]])
    args = words, masks[0], frames, masks[1]
    found = token_matches(*args, official_mask=True)
    assert found['words'].partner.tolist() == [[[-1]]] and found['words'].value.item() == 0
    assert found['frames'].partner.tolist() == [[[0, -1]]]  # the text has no padding
    assert token_matches(*args)['words'].partner.tolist() == [[[0]]]


def test_bad_input(tokens):
    with pytest.raises(ValueError, match="side must be one of .*, not 'texts'"):
        token_matches(*tokens, side='texts')
    words, word_mask, frames, frame_mask = tokens
    with pytest.raises(ValueError, match='video 1 has no valid token'):
        token_matches(
            words, word_mask, frames, frame_mask & torch.tensor([1, 0, 1])[:, None].bool()
        )
