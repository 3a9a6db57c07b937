"""Heads for frozen vectors: whether sigma finds the noise that was put in."""

import numpy as np
import pytest
import torch
from sigma_heads import FrozenSigma, fit_sigma

from mmvtr.functional import generalised_gaussian_nll, generalised_gaussian_std, spearman


def noisy_pairs(count, seed):
    """A mark on both vectors says how far the partner may be: texts, videos, noise."""
    random = np.random.default_rng(seed)
    content = random.normal(size=(count, 12))
    noise = random.uniform(0.05, 1.5, size=(count, 1))
    mark = 2 * noise
    texts = np.hstack([content, mark, np.ones((count, 3))])
    videos = texts + np.hstack([noise * random.normal(size=(count, 12)), np.zeros((count, 4))])
    return texts, videos, noise[:, 0]


@pytest.fixture(scope='module')
def model():
    texts, videos, _ = noisy_pairs(1500, seed=0)
    return fit_sigma(texts, videos, hidden=64, dropout=0.0, epochs=40, lr=3e-3, batch_size=64)


def test_sigma_is_the_noise_of_items_that_were_not_seen(model):
    texts, videos, noise = noisy_pairs(400, seed=1)
    for side, vectors in (('text', texts), ('video', videos)):
        sigma = model.sigma(vectors, side)
        assert sigma.shape == (400,) and sigma.dtype == np.float32 and (sigma > 0).all()
        assert spearman(torch.from_numpy(sigma), torch.from_numpy(noise)) > 0.7
    assert 1 <= model.epochs <= 40


def test_lengths_do_not_matter_and_torch_comes_back_as_torch(model):
    texts, _, _ = noisy_pairs(20, seed=2)
    found = model.sigma(torch.from_numpy(7 * texts), 'text')
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), model.sigma(texts, 'text'), rtol=1e-4)


def test_the_likelihood_by_hand():
    texts, videos, _ = noisy_pairs(5, seed=3)
    t, v = (torch.tensor(x, dtype=torch.float32) for x in (texts, videos))
    heads = FrozenSigma(16, hidden=8).eval()
    total = 0.0
    for own, partner, side in ((t, v, 'text'), (v, t, 'video')):
        mean, log_alpha, beta = heads.heads[side](own)
        for target, weight in ((own, 1.0), (partner, 0.4)):
            terms = generalised_gaussian_nll(mean - target, log_alpha, beta, form='official')
            total += weight * terms.mean().item() / 2
    found = heads.nll(t, v, cross=0.4, form='official').item()
    assert found == pytest.approx(total, rel=1e-5)
    found = heads.distribution(texts, 'text')
    std = generalised_gaussian_std(found.log_alpha, found.beta)
    expected = std.mean(1).exp()
    torch.testing.assert_close(torch.from_numpy(heads.sigma(texts, 'text')), expected)


def test_a_seed_gives_the_same_and_leaves_torch_alone():
    texts, videos, _ = noisy_pairs(40, seed=4)
    state = torch.random.get_rng_state()
    one, other, third = (fit_sigma(texts, videos, epochs=2, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    sigmas = [model.sigma(texts, 'text') for model in (one, other, third)]
    assert (sigmas[0] == sigmas[1]).all() and (sigmas[0] != sigmas[2]).any()


def test_what_is_refused(model):
    texts, videos, _ = noisy_pairs(30, seed=5)
    for wrong, said in (
        ((texts, videos[:29]), '30 texts and 29 videos'),
        ((texts[:19], videos[:19]), '20 at least'),
        ((texts, videos[:, :5]), 'videos have width 5'),
    ):
        with pytest.raises(ValueError, match=said):
            fit_sigma(*wrong)
    with pytest.raises(ValueError, match='held_out must lie'):
        fit_sigma(texts, videos, held_out=1.0)
    with pytest.raises(ValueError, match='form must be'):
        fit_sigma(texts, videos, form='paper')
    with pytest.raises(ValueError, match='never finite'):
        fit_sigma(texts, videos, lr=1e30, epochs=1)
    with pytest.raises(ValueError, match="'text' or 'video'"):
        model.sigma(texts, 'audio')
    with pytest.raises(ValueError, match='width 5, not 16'):
        model.sigma(texts[:, :5], 'text')
    with pytest.raises(TypeError, match='numpy array or a torch tensor'):
        fit_sigma(texts.tolist(), videos)
