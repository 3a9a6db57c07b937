import math

import numpy as np
import pytest
import torch

from mmvtr.functional.losses.set_contrast import multi_instance, over_samples, sample_scores

T, V, S, D = 4, 3, 2, 5


@pytest.fixture
def batch():
    """Samples of 4 texts and 3 videos, float64; texts 0 and 1 belong to video 0, 3 to none."""
    generator = torch.Generator().manual_seed(0)
    texts = torch.randn(T, S, D, generator=generator, dtype=torch.float64)
    videos = torch.randn(V, S + 1, D, generator=generator, dtype=torch.float64)
    positives = torch.tensor([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]]).bool()
    return texts, videos, positives


def loops(texts, videos, positives, *, temperature, normalise, weights, form):
    """Eq. 11 (or its outer-sum form) over texts, one sample at a time."""
    losses = []
    for i in range(len(texts)):
        if not positives[i].any():
            continue
        for z in texts[i]:
            own, others = [], []
            for j in range(len(videos)):
                for y in videos[j]:
                    s = (z @ y).item()
                    if normalise:
                        s /= (z.norm() * y.norm()).item()
                    if positives[i, j]:
                        own.append(s / temperature)
                    else:
                        others.append(math.exp(s / temperature) * weights[i, j].item())
            total = math.log(sum(map(math.exp, own)) + sum(others))
            if form == 'pooled':
                losses.append(total - math.log(sum(map(math.exp, own))))
            else:
                losses.append(total - sum(own) / len(own))
    return sum(losses) / len(losses)


@pytest.mark.parametrize('form', ['pooled', 'outer_sum'])
@pytest.mark.parametrize('normalise', [True, False])
def test_equation_11(batch, form, normalise):
    texts, videos, positives = batch
    weights = torch.rand(T, V, generator=torch.Generator().manual_seed(1)).double()
    options = dict(temperature=0.7, normalise=normalise, form=form)
    t2v = loops(texts, videos, positives, weights=weights, **options)
    v2t = loops(videos, texts, positives.t(), weights=weights.t(), **options)
    value = multi_instance(*batch, weights=weights, **options)
    assert value.item() == pytest.approx((t2v + v2t) / 2, rel=1e-9)
    ones = torch.ones(T, V)
    plain = loops(texts, videos, positives, weights=ones, **options)
    value = multi_instance(*batch, direction='t2v', **options)
    assert value.item() == pytest.approx(plain, rel=1e-9)


def test_golden(shared):
    golden = np.load(shared / 'golden/uatvr_mil.npz')
    names = ('text_samples', 'video_samples', 'text_samples_k3')
    texts, videos, three = (torch.as_tensor(golden[name]) for name in names)
    own = torch.eye(5, dtype=torch.bool)

    def official(texts, direction):
        options = dict(normalise=False, form='outer_sum', direction=direction)
        return multi_instance(texts, videos, own, **options).item()

    for direction, name in (('t2v', 'loss_t'), ('v2t', 'loss_v'), ('both', 'MIL_loss')):
        assert official(texts, direction) == pytest.approx(float(golden[name]), abs=1e-5)
    assert official(three, 't2v') == pytest.approx(float(golden['loss_t_k7x3']), abs=1e-5)
    assert official(three, 'v2t') == pytest.approx(float(golden['loss_v_k7x3']), abs=1e-5)
    scores = sample_scores(texts, videos, normalise=False).t()
    torch.testing.assert_close(scores, torch.as_tensor(golden['sim_v2t']), rtol=0, atol=1e-5)
    paper = multi_instance(texts, videos, own, normalise=False, direction='v2t')
    assert paper.item() == pytest.approx(1.6696, abs=5e-5)


def test_gradients(batch):
    texts, videos, positives = batch
    texts, videos = texts.requires_grad_(), videos.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda t, v: multi_instance(t, v, positives, temperature=0.5), (texts, videos)
    )


def test_samples_of_a_text_lie_side_by_side():
    x = torch.tensor([[1, 2], [3, 4]])
    assert over_samples(x, 1, 2).tolist() == [[1, 1, 2, 2], [3, 3, 4, 4]]
    assert over_samples(x, 2, 1).tolist() == [[1, 2], [1, 2], [3, 4], [3, 4]]


def test_half_precision_and_long_samples_stay_finite(batch):
    texts, videos, positives = batch
    for normalise in (True, False):
        value = multi_instance(
            (1e3 * texts).bfloat16(), videos.bfloat16(), positives, normalise=normalise
        )
        assert value.dtype == torch.float32 and value.isfinite()
