"""DBSN and DBNorm against published numbers, and against loops that spell them out."""

import numpy as np
import pytest
import torch

from mmvtr.functional import activation_set, as_tiles, db_norm, dbsn, sinkhorn_scores

Q, K, M, N = 6, 9, 7, 5


def matrices(seed=0):
    """Scores [Q, N], bank [K, N], bank's gallery [K, M] and item bank [M, N]; item 2 is a hub."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.rand(*x, generator=generator).double() for x in ((Q, N), (K, N), (K, M), (M, N))]
    drawn[1][:, 2] += 0.4
    return drawn


def golden_of(shared, name, size):
    with np.load(shared / 'golden' / f'{name}.npz', allow_pickle=False) as arrays:
        found = {
            key.removeprefix(f'{size}.'): x for key, x in arrays.items() if key.startswith(size)
        }
    return {key: torch.from_numpy(x) for key, x in found.items()}


def centred(x):
    return x - x.mean(-1, keepdim=True)


# Published numbers.


@pytest.mark.parametrize('size', ['tiny', 'mid'])
@pytest.mark.parametrize('tau', [0.05, 0.02, 0.01])
def test_golden_dbsn(shared, size, tau):
    golden = golden_of(shared, 'dbsn', size)
    bank, own = golden['banktext_video'], golden['banktext_bankvideo']
    found = dbsn(golden['sims'], bank, bank_gallery=own, temperature=tau)
    expected = golden[f'dbsn_tau{tau}_it10.scores']
    torch.testing.assert_close(centred(found), centred(expected), atol=1e-5, rtol=0)
    added = (found - golden['sims'])[0]
    expected = -golden[f'dbsn_tau{tau}_it10.video_bias']
    torch.testing.assert_close(centred(added), centred(expected), atol=1e-5, rtol=0)
    zeros = torch.eye(2, bank.shape[1]).double()
    far = dbsn(zeros, bank.double(), bank_gallery=own.double(), temperature=tau, iterations=3000)
    expected = -golden[f'dbsn_tau{tau}_converged.video_bias_centred']
    torch.testing.assert_close(
        centred((far - zeros)[0]).float(), centred(expected).float(), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize('size', ['tiny', 'mid'])
@pytest.mark.parametrize('k', [1, 2])
@pytest.mark.parametrize('betas', [('0.5025', '3'), ('20', '5')])
def test_golden_db_norm(shared, size, k, betas):
    """Of `.paper`: the published code never reads the scores that it is to normalise."""
    golden = golden_of(shared, 'dbnorm', size)
    scores, bank, items = (golden[x] for x in ('sims', 'banktext_video', 'bankvideo_video'))
    first, second = (1 / 1.99 if x == '0.5025' else float(x) for x in betas)
    given = dict(item_bank=items, temperature=1 / first, item_temperature=1 / second)
    given['neighbours'] = k
    static = (db_norm(scores, bank, **given) * (first + second)).exp()
    name = f'db_k{k}_b{betas[0]}_{betas[1]}'
    torch.testing.assert_close(static, golden[f'{name}.paper'], atol=1e-5, rtol=1e-5)
    found = db_norm(scores, bank, **given, dynamic=True)
    active, of_items = (activation_set(x, neighbours=k)[scores.argmax(1)] for x in (bank, items))
    both = (active & of_items)[:, None]
    neither = ~(active | of_items)[:, None]
    found = torch.where(both, (found * (first + second)).exp(), found)
    found = torch.where(neither, found**2, found)  # ours keeps the scores
    expected = golden[f'{name}_dynamic.paper']
    # a row that was scaled down has the same proportions
    scale = (expected.abs().amax(1) / found.abs().amax(1))[:, None]
    assert (scale > 0.999).all()
    torch.testing.assert_close(found * scale, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize('size', ['tiny', 'mid'])
@pytest.mark.parametrize('name, a, b', [('0.02_0.5', 0.02, 0.5), ('0.05_1', 0.05, 1.0)])
def test_golden_dual_inverted_softmax(shared, size, name, a, b):
    golden = golden_of(shared, 'dbsn', size)
    bank, items = golden['banktext_video'], golden['bankvideo_video']
    found = db_norm(
        golden['sims'], bank, item_bank=items, temperature=a, item_temperature=b
    ).double()
    expected = golden[f'dualis_tau{name}.scores'].double()
    # relative, as float32 exponents of 1 / .02 are
    torch.testing.assert_close((found * (1 / a + 1 / b)).exp(), expected, atol=1e-5, rtol=1e-4)


# Definitions, spelt out.


@pytest.mark.parametrize('rounds', [1, 3, 10])
def test_dbsn_is_sinkhorn_of_both_galleries_with_uniform_marginals(rounds):
    scores, bank, own, _ = matrices()
    kernel = torch.cat([bank, own], dim=1).div(0.1).exp().tolist()
    rows, columns = [0.0] * K, [1.0] * (N + M)
    for _ in range(rounds):
        for i in range(K):
            rows[i] = 1 / K / sum(kernel[i][j] * columns[j] for j in range(N + M))
        for j in range(N + M):
            columns[j] = 1 / (N + M) / sum(kernel[i][j] * rows[i] for i in range(K))
    expected = scores + 0.1 * torch.tensor(columns[:N]).double().log()
    found = dbsn(scores, bank, bank_gallery=own, temperature=0.1, iterations=rounds)
    torch.testing.assert_close(centred(found), centred(expected), atol=1e-7, rtol=0)


def test_the_items_of_the_bank_make_a_difference():
    scores, bank, own, _ = matrices()
    one = dbsn(scores, bank, bank_gallery=own, temperature=0.1, iterations=300)
    other = dbsn(scores, bank, bank_gallery=own.flip(0), temperature=0.1, iterations=300)
    alone = sinkhorn_scores(scores, bank, temperature=0.1, iterations=300)
    assert not torch.allclose(centred(one), centred(other), atol=1e-3)
    assert not torch.allclose(centred(one), centred(alone), atol=1e-3)


def test_db_norm_is_the_logarithm_of_the_product():
    scores, bank, _, items = matrices()
    found = db_norm(scores, bank, item_bank=items, temperature=0.1, item_temperature=0.4)
    for i in range(Q):
        for j in range(N):
            s = scores[i, j]
            first = (s / 0.1).exp() / sum((g / 0.1).exp() for g in bank[:, j])
            second = (s / 0.4).exp() / sum((h / 0.4).exp() for h in items[:, j])
            expected = (first * second).log() / (1 / 0.1 + 1 / 0.4)
            assert found[i, j].item() == pytest.approx(expected.item(), abs=1e-12)


def test_dynamic_rows_take_the_factors_of_the_banks_that_find_their_best_item():
    bank = torch.tensor([[0.9, 0.1, 0.1, 0.1], [0.1, 0.9, 0.1, 0.1]]).double()  # items 0, 1
    items = torch.tensor([[0.1, 0.8, 0.1, 0.2], [0.1, 0.1, 0.7, 0.2]]).double()  # items 1, 2
    scores = (torch.eye(4) * 0.3 + 0.2).double()  # row i finds item i
    found = db_norm(
        scores, bank, item_bank=items, temperature=0.5, item_temperature=2, dynamic=True
    )
    static = db_norm(scores, bank, item_bank=items, temperature=0.5, item_temperature=2)
    first = scores * (scores / 0.5).exp() / (bank / 0.5).exp().sum(0)
    second = scores * (scores / 2).exp() / (items / 2).exp().sum(0)
    torch.testing.assert_close(found, torch.stack([first[0], static[1], second[2], scores[3]]))


def test_dynamic_rows_do_not_overflow():
    scores, bank, _, items = matrices()
    found = db_norm(
        scores.float(), bank - 5, item_bank=items - 5, temperature=1e-3, dynamic=True, neighbours=1
    )
    assert found.isfinite().all()


@pytest.mark.parametrize('entries', [1, 12, 10**6])
def test_tiles_give_the_same(entries):
    scores, bank, own, items = matrices()
    bank_, own_, items_ = (as_tiles(x, entries=entries) for x in (bank, own, items))
    for options in (dict(), dict(dynamic=True, neighbours=2)):
        whole = db_norm(scores, bank, item_bank=items, temperature=0.2, **options)
        found = db_norm(scores, bank_, item_bank=items_, temperature=0.2, **options)
        torch.testing.assert_close(found, whole)
    whole = dbsn(scores, bank, bank_gallery=own, temperature=0.2)
    torch.testing.assert_close(dbsn(scores, bank_, bank_gallery=own_, temperature=0.2), whole)


def test_what_does_not_fit_is_named():
    scores, bank, own, items = matrices()
    with pytest.raises(ValueError, match='bank_gallery has 8 bank queries, but bank has 9'):
        dbsn(scores, bank, bank_gallery=own[1:], temperature=0.1)
    with pytest.raises(ValueError, match='iterations must be 1 to 100,000'):
        dbsn(scores, bank, bank_gallery=own, temperature=0.1, iterations=0)
    with pytest.raises(ValueError, match='bank_gallery .* has no gallery items'):
        dbsn(scores, bank, bank_gallery=own[:, :0], temperature=0.1)
    with pytest.raises(ValueError, match='covers 4 gallery items'):
        db_norm(scores, bank, item_bank=items[:, 1:], temperature=0.1)
    for function, given in ((dbsn, dict(bank_gallery=own)), (db_norm, dict(item_bank=items))):
        with pytest.raises(ValueError, match='temperature must be positive'):
            function(scores, bank, temperature=0, **given)
    own[3, 1] = torch.nan
    with pytest.raises(ValueError, match=r'bank_gallery\[3, 1\] is nan'):
        dbsn(scores, bank, bank_gallery=own, temperature=0.1)
