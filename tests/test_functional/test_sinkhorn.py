"""Sinkhorn biases against NCL's listing, optimal transport's own library, and in the limits."""

import re
import weakref

import numpy as np
import pytest
import torch

from children import ROOT, run_tool
from mmvtr.functional.similarities.tiles import Tiles, as_tiles, inner_products
from mmvtr.functional.transforms.sinkhorn import column_biases, sinkhorn

TEMPERATURES = (0.001, 0.01, 0.1, 1.0, 10.0)


def cosines(queries=7, gallery=5, *, dim=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    unit = [
        torch.nn.functional.normalize(torch.randn(n, dim, generator=generator).double(), dim=1)
        for n in (queries, gallery)
    ]
    return unit[0] @ unit[1].t()


def masses(length, seed=0):
    values = torch.rand(length, generator=torch.Generator().manual_seed(seed)).double() + 0.2
    return values / values.sum()


def listing(scores, temperature, iterations, r=None, c=None):
    """NCL Fig. 4 with marginals, in numpy and without logarithms until the end."""
    m = np.exp(scores.double().numpy() / temperature)
    r = np.full(m.shape[0], 1 / m.shape[0]) if r is None else r.numpy()
    c = np.full(m.shape[1], 1 / m.shape[1]) if c is None else c.numpy()
    beta, alpha = c / m.sum(0), np.ones(m.shape[0])
    for _ in range(iterations):
        alpha = r / (m @ beta)
        beta = c / (alpha @ m)
    a, b = (temperature * np.log(x / x.sum()) for x in (alpha, beta))
    return torch.from_numpy(a), torch.from_numpy(b)


def transport(scores, biases, temperature):
    """The coupling that biases stand for; they fix it up to its sum."""
    logits = (scores + biases.rows[:, None] + biases.columns) / temperature
    return logits.flatten().softmax(0).view_as(logits)


def counted(scores, **kwargs):
    """Tiles that note each tile they make."""
    tiles, made = as_tiles(scores, **kwargs), []

    def columns(part):
        made.append(part)
        return tiles.columns(part)

    return tiles._replace(columns=columns), made


def test_golden_listing_of_ncl(shared):
    golden = np.load(shared / 'golden' / 'ncl_fig4.npz')
    gamma, iterations = float(golden['gamma']), int(golden['n_iters'])
    for name, a, b in (('cos', 'a', 'b'), ('queue_cos', 'queue_a', 'queue_b_for_videos')):
        scores = torch.from_numpy(golden[name])
        biases = sinkhorn(scores, temperature=gamma, iterations=iterations)
        torch.testing.assert_close(biases.rows, torch.from_numpy(golden[a]), atol=1e-9, rtol=0)
        torch.testing.assert_close(biases.columns, torch.from_numpy(golden[b]), atol=1e-9, rtol=0)
        single = sinkhorn(scores.float(), temperature=gamma, iterations=iterations)
        torch.testing.assert_close(single.columns.double(), biases.columns, atol=1e-5, rtol=0)


@pytest.mark.parametrize('iterations', [0, 1, 4])
@pytest.mark.parametrize('marginals', [False, True])
def test_biases_are_those_of_the_listing(iterations, marginals):
    scores = cosines()
    r, c = (masses(7), masses(5, seed=1)) if marginals else (None, None)
    biases = sinkhorn(
        scores, temperature=0.1, iterations=iterations, row_marginals=r, column_marginals=c
    )
    a, b = listing(scores, 0.1, iterations, r, c)
    torch.testing.assert_close(biases.rows, a, atol=1e-12, rtol=0)
    torch.testing.assert_close(biases.columns, b, atol=1e-12, rtol=0)


@pytest.mark.parametrize('iterations', [4, 3000])
@pytest.mark.parametrize('temperature', [0.02, 0.3])
def test_biases_are_those_of_pot(iterations, temperature):
    ot = pytest.importorskip('ot')
    scores, r, c = cosines(), masses(7), masses(5, seed=1)
    plan, log = ot.bregman.sinkhorn_log(
        *(x.numpy() for x in (r, c, -scores)),
        reg=temperature,
        numItermax=iterations,
        stopThr=0,
        warn=False,
        log=True,
    )
    biases = sinkhorn(
        scores,
        temperature=temperature,
        iterations=iterations,
        row_marginals=r,
        column_marginals=c,
    )
    log_alpha = torch.from_numpy(log['log_u']).log_softmax(0)
    torch.testing.assert_close(biases.rows, temperature * log_alpha, atol=1e-10, rtol=0)
    if iterations > 4:  # POT ends with the rows, we end with the columns
        found = transport(scores, biases, temperature)
        torch.testing.assert_close(found, torch.from_numpy(plan), atol=1e-10, rtol=0)


def test_marginals_hold():
    scores, r, c = cosines(30, 20), masses(30), masses(20, seed=1)
    kwargs = dict(temperature=0.1, row_marginals=r, column_marginals=c)
    early = transport(scores, sinkhorn(scores, iterations=2, **kwargs), 0.1)
    torch.testing.assert_close(early.sum(0), c, atol=1e-12, rtol=0)  # the columns at any time
    assert (early.sum(1) / r - 1).abs().max() > 1e-3
    late = transport(scores, sinkhorn(scores, iterations=300, **kwargs), 0.1)
    torch.testing.assert_close(late.sum(0), c, atol=1e-12, rtol=0)
    torch.testing.assert_close(late.sum(1), r, atol=1e-9, rtol=0)


def test_sum_retrieval_probabilities_become_one():
    """NCL Eq. 13, which its loss and its figures rest on."""
    scores = cosines(12, 12)
    raw = (scores / 0.05).softmax(1).sum(0)
    assert (raw - 1).abs().max() > 0.5
    biases = sinkhorn(scores, temperature=0.05, iterations=500)
    found = ((scores + biases.columns) / 0.05).softmax(1).sum(0)
    torch.testing.assert_close(found, torch.ones_like(found), atol=1e-6, rtol=0)


@pytest.mark.parametrize('tolerance', [1e-1, 1e-3])
def test_tolerance_stops_as_soon_as_the_rows_hold(tolerance):
    scores = cosines(30, 20)
    biases = sinkhorn(scores, temperature=0.1, iterations=500, tolerance=tolerance)
    errors = [
        (transport(scores, sinkhorn(scores, temperature=0.1, iterations=n), 0.1).sum(1) * 30 - 1)
        .abs()
        .max()
        for n in range(100)
    ]
    needed = next(n for n, error in enumerate(errors) if error < tolerance)
    fixed = sinkhorn(scores, temperature=0.1, iterations=needed + 1)
    assert 1 <= needed < 100
    assert torch.equal(biases.rows, fixed.rows) and torch.equal(biases.columns, fixed.columns)


def test_iterations_are_the_most_there_may_be():
    scores = cosines(30, 20)
    capped = sinkhorn(scores, temperature=0.1, iterations=3, tolerance=1e-12)
    assert torch.equal(capped.rows, sinkhorn(scores, temperature=0.1, iterations=3).rows)


def test_cold_limit_is_the_assignment():
    """A hub that is every query's best item, and the permutation that lies below it."""
    order = torch.tensor([3, 0, 4, 1, 5, 2])
    scores = 0.1 * torch.eye(6)[order]
    scores[:, 1] += 0.5
    biases = sinkhorn(scores, temperature=0.001, iterations=50)
    assert scores.argmax(1).tolist() == [1] * 6
    assert (scores + biases.columns).argmax(1).tolist() == order.tolist()
    torch.testing.assert_close(transport(scores, biases, 0.001), torch.eye(6)[order] / 6)


def test_cold_limit_on_cosines_is_the_best_assignment():
    optimize = pytest.importorskip('scipy.optimize')
    scores = cosines(10, 10)
    best = optimize.linear_sum_assignment(scores.numpy(), maximize=True)[1].tolist()
    biases = sinkhorn(scores, temperature=0.001, iterations=3000)
    assert (scores + biases.columns).argmax(1).tolist() == best != scores.argmax(1).tolist()


def test_warm_limit_centres_rows_and_columns():
    """To first order in 1 / temperature the biases take each row's and each column's mean off."""
    scores, temperature = cosines(), 1e5
    biases = sinkhorn(scores, temperature=temperature, iterations=1)
    rows, columns = (scores.mean(dim) - scores.mean() for dim in (1, 0))
    even = [temperature * torch.tensor(n).double().log() for n in scores.shape]
    torch.testing.assert_close(biases.rows + even[0], -rows, atol=1e-5, rtol=0)
    torch.testing.assert_close(biases.columns + even[1], -columns, atol=1e-5, rtol=0)


def test_a_constant_matrix_has_equal_biases():
    biases = sinkhorn(torch.full((4, 3), 0.7), temperature=0.05)
    torch.testing.assert_close(biases.rows, 0.05 * torch.tensor([0.25] * 4).log())
    torch.testing.assert_close(biases.columns, 0.05 * torch.tensor([1 / 3] * 3).log())


def test_permuted_queries_and_items_get_permuted_biases():
    scores, r, c = cosines(), masses(7), masses(5, seed=1)
    rows, columns = torch.tensor([3, 6, 0, 1, 5, 2, 4]), torch.tensor([4, 2, 0, 1, 3])
    kwargs = dict(temperature=0.05, iterations=3)
    plain = sinkhorn(scores, row_marginals=r, column_marginals=c, **kwargs)
    moved = sinkhorn(
        scores[rows][:, columns], row_marginals=r[rows], column_marginals=c[columns], **kwargs
    )
    torch.testing.assert_close(moved.rows, plain.rows[rows], atol=1e-12, rtol=0)
    torch.testing.assert_close(moved.columns, plain.columns[columns], atol=1e-12, rtol=0)


def test_a_constant_on_the_scores_changes_nothing_and_units_scale():
    scores = cosines()
    plain = sinkhorn(scores, temperature=0.05)
    shifted = sinkhorn(scores + 3, temperature=0.05)
    scaled = sinkhorn(scores * 100, temperature=5.0)
    for x, y, z in zip(plain, shifted, scaled):
        torch.testing.assert_close(y, x, atol=1e-12, rtol=0)
        torch.testing.assert_close(z, 100 * x, atol=1e-10, rtol=0)


@pytest.mark.parametrize('width', [1, 2, 3, 5])
def test_tiles_of_any_width_give_the_same_biases(width):
    scores, r, c = cosines(), masses(7), masses(5, seed=1)
    kwargs = dict(temperature=0.05, row_marginals=r, column_marginals=c)
    whole = sinkhorn(scores, **kwargs)
    tiled = sinkhorn(as_tiles(scores, entries=7 * width), **kwargs)
    torch.testing.assert_close(tiled.rows, whole.rows, atol=1e-12, rtol=0)
    torch.testing.assert_close(tiled.columns, whole.columns, atol=1e-12, rtol=0)


@pytest.mark.parametrize('dtype', ['float16', 'float32'])
def test_mapped_embeddings_give_the_biases_of_their_scores(tmp_path, dtype):
    queries, gallery = (np.random.default_rng(n).normal(size=(n, 6)) for n in (9, 40))
    np.save(tmp_path / 'gallery.npy', gallery.astype(dtype))
    mapped = np.load(tmp_path / 'gallery.npy', mmap_mode='r')
    scores = queries.astype(np.float32) @ mapped.astype(np.float32).T
    found = sinkhorn(inner_products(queries, mapped, entries=9 * 7), temperature=0.5)
    expected = sinkhorn(torch.from_numpy(scores), temperature=0.5)
    torch.testing.assert_close(found.rows, expected.rows, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.columns, expected.columns, atol=1e-5, rtol=0)


def test_one_pass_an_iteration_and_one_more():
    tiles, made = counted(cosines(7, 6), entries=7 * 2)
    sinkhorn(tiles, temperature=0.1, iterations=4)
    assert made.count(slice(2, 4)) == 5


def test_no_tile_outlives_the_next_but_one():
    alive, most = [], 0

    def columns(part):
        nonlocal most
        tile = torch.full((4, part.stop - part.start), float(part.start))
        alive.append(weakref.ref(tile))
        most = max(most, sum(ref() is not None for ref in alive))
        return tile

    with torch.no_grad():
        sinkhorn(Tiles((4, 50), columns, 1), temperature=1.0)
    # The one in use, the one being made, and the single column that told dtype and device.
    assert len(alive) == 251 and most <= 3


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_tiles(tmp_path):
    """Of 25 tiles of 16 MiB: a vector kept of each used to hold the room of the whole tile."""
    sizes = ('--queries', 1024, '--gallery', 100_000, '--dim', 4, '--iterations', 0, '--memmap')
    code, printed = run_tool(
        tmp_path, str(ROOT / 'projects/lab/evidence/speed/sinkhorn.py'), *sizes
    )
    assert code == 0, printed
    beyond = int(re.search(r'(-?\d+) MiB beyond the embeddings', printed)[1])
    assert beyond < 250 and '1024 x 100000 from 4-d embeddings' in printed


@pytest.mark.parametrize('temperature', TEMPERATURES)
@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize('scale', [1, 100])
def test_every_temperature_is_finite_and_exact_in_any_precision(temperature, dtype, scale):
    """Of cosines and of logits; a hundredth of the temperature bends no softmax."""
    scores = (scale * cosines(20, 15)).to(dtype)
    biases = sinkhorn(scores, temperature=temperature, iterations=6)
    exact = sinkhorn(scores.double(), temperature=temperature, iterations=6)
    for found, expected in zip(biases, exact):
        assert found.dtype == torch.float32 and found.isfinite().all()
        error = (found - expected).abs().max()
        assert error < 0.01 * temperature + 1e-6 * scale


def test_double_stays_double():
    assert sinkhorn(cosines(), temperature=0.1).rows.dtype == torch.float64


@pytest.mark.parametrize('entries', [10**6, 8])
def test_gradients_are_exact(entries):
    scores, temperature = cosines(4, 5), torch.tensor(0.3).double()
    r, c = masses(4), masses(5, seed=1)

    def both(scores, temperature, a):
        tiles = as_tiles(scores, entries=entries)
        kwargs = dict(temperature=temperature, column_marginals=c)
        return *sinkhorn(tiles, iterations=3, row_marginals=r, **kwargs), column_biases(
            tiles, a, **kwargs
        )

    inputs = tuple(x.requires_grad_() for x in (scores, temperature, torch.randn(4).double()))
    assert torch.autograd.gradcheck(both, inputs)


def test_column_biases_follow_their_formula():
    scores, a, c = cosines(), masses(7), 3 * masses(5)
    found = column_biases(scores, a, temperature=0.1, column_marginals=c)
    for j in range(5):
        total = sum(((scores[i, j] + a[i]) / 0.1).exp() for i in range(7))
        torch.testing.assert_close(found[j], 0.1 * (c[j].log() - total.log()))


@pytest.mark.parametrize('marginals', [False, True])
def test_added_columns_get_their_biases_and_leave_the_others(marginals):
    scores = cosines(9, 12)
    mass = 5 * masses(12) if marginals else torch.full((12,), 5 / 12).double()
    share = mass[:8] / mass[:8].sum()
    old = sinkhorn(scores[:, :8], temperature=0.05, iterations=2, column_marginals=share)

    def biases(part):
        c = mass[part] if marginals else None
        return column_biases(scores[:, part], old.rows, temperature=0.05, column_marginals=c)

    together, first, added = biases(slice(0, 12)), biases(slice(0, 8)), biases(slice(8, 12))
    torch.testing.assert_close(together, torch.cat((first, added)), rtol=0, atol=1e-12)
    shift = old.columns - first
    torch.testing.assert_close(shift, shift[:1].expand(8), atol=1e-12, rtol=0)
    # In the coupling of all columns each added one holds its mass, as each old one does.
    logits = (scores + old.rows[:, None] + together) / 0.05
    sums = logits.flatten().softmax(0).view_as(logits).sum(0)
    torch.testing.assert_close(sums, mass / mass.sum(), atol=1e-12, rtol=0)


@pytest.mark.parametrize('value', [torch.nan, torch.inf, -torch.inf])
def test_scores_that_are_not_finite_are_named(value):
    scores = cosines()
    scores[4, 2] = value
    for function in (
        lambda: sinkhorn(scores, temperature=0.1),
        lambda: sinkhorn(scores, temperature=0.1, iterations=0),
        lambda: column_biases(scores, torch.zeros(7), temperature=0.1),
    ):
        with pytest.raises(ValueError, match=rf'scores\[4, 2\] is {value}, expected finite'):
            function()


@pytest.mark.parametrize('shape, what', [((0, 3), 'queries'), ((3, 0), 'gallery items')])
def test_empty_matrices_are_named(shape, what):
    for function in (
        lambda: sinkhorn(torch.zeros(shape), temperature=0.1),
        lambda: column_biases(torch.zeros(shape), torch.zeros(shape[0]), temperature=0.1),
    ):
        with pytest.raises(ValueError, match=f'has no {what}'):
            function()


@pytest.mark.parametrize(
    'wrong, message',
    [
        (dict(temperature=0.0), 'temperature must be positive and finite, not 0.0'),
        (dict(temperature=-1.0), 'temperature must be positive and finite, not -1.0'),
        (
            dict(temperature=torch.tensor(torch.nan)),
            'temperature must be positive and finite, not nan',
        ),
        (dict(iterations=-1), 'iterations must be 0 to 100,000, not -1'),
        (dict(tolerance=0.0), 'tolerance must be positive, not 0.0'),
        (dict(row_marginals=masses(5)), r'row_marginals \[5\] must have shape \[7\]'),
        (dict(column_marginals=masses(7)), r'column_marginals \[7\] must have shape \[5\]'),
        (dict(row_marginals=2 * masses(7)), 'row_marginals must sum to one, not 2'),
        (dict(column_marginals=masses(5) * 1.001), 'column_marginals must sum to one, not 1.001'),
        (
            dict(column_marginals=torch.tensor([0.5, 0, 0.5, 0, 0])),
            r'column_marginals\[1\] is 0.0, expected positive',
        ),
        (
            dict(column_marginals=torch.tensor([0.5, 0.5, 0.5, 0.5, -1])),
            r'column_marginals\[4\] is -1.0, expected positive',
        ),
    ],
)
def test_wrong_arguments_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        sinkhorn(cosines(), **{'temperature': 0.1, **wrong})


def test_marginals_may_be_rounded():
    r = masses(7).float()
    assert sinkhorn(cosines(), temperature=0.1, row_marginals=r * 1.00005).rows.isfinite().all()


def test_wrong_arguments_of_column_biases_are_named():
    with pytest.raises(ValueError, match=r'row_biases \[5\] must have shape \[7\]'):
        column_biases(cosines(), torch.zeros(5), temperature=0.1)
    with pytest.raises(ValueError, match='temperature must be positive'):
        column_biases(cosines(), torch.zeros(7), temperature=0.0)
    with pytest.raises(ValueError, match=r'column_marginals\[2\] is 0.0, expected positive'):
        column_biases(
            cosines(),
            torch.zeros(7),
            temperature=0.1,
            column_marginals=torch.tensor([1.0, 1, 0, 1, 1]),
        )


def test_unbalanced_biases_are_those_of_pot():
    """The rows hold and the columns are relaxed by KL: the scaling of POT's unbalanced solver."""
    ot = pytest.importorskip('ot')
    scores, r, c = cosines(), masses(7), masses(5, seed=1)
    temperature, marginal_penalty = 0.1, 0.7
    rho = temperature * marginal_penalty / (1 - marginal_penalty)
    plan = ot.unbalanced.sinkhorn_unbalanced(
        *(x.numpy() for x in (r, c, -scores)),
        reg=temperature,
        reg_m=(np.inf, rho),
        reg_type='entropy',
        numItermax=5000,
        stopThr=1e-15,
    )
    biases = sinkhorn(
        scores,
        temperature=temperature,
        iterations=300,
        row_marginals=r,
        column_marginals=c,
        marginal_penalty=marginal_penalty,
    )
    ours = ((scores + biases.columns) / temperature).softmax(1) * r[:, None]
    torch.testing.assert_close(ours, torch.from_numpy(plan), atol=1e-7, rtol=0)


@pytest.mark.parametrize('marginal_penalty', [0.0, 0.5, 0.9])
def test_an_item_pays_for_what_it_gets_beyond_its_share(marginal_penalty):
    """b_j = rho log(c_j / m_j) in the limit, and a loop in float64 says the same at any time."""
    scores, c = cosines(30, 20), masses(20, seed=1)
    x, alpha = (scores / 0.1).exp(), torch.ones(30).double()
    for _ in range(6):
        alpha = (1 / 30) / (x @ (c / (alpha @ x)) ** marginal_penalty)
    expected = 0.1 * (c / (alpha @ x)).log() * marginal_penalty
    options = dict(temperature=0.1, column_marginals=c, marginal_penalty=marginal_penalty)
    early = sinkhorn(scores, iterations=6, **options).columns
    torch.testing.assert_close(early - early.mean(), expected - expected.mean())
    late = sinkhorn(scores, iterations=500, **options).columns
    mass = ((scores + late) / 0.1).softmax(1).mean(0)
    rho = 0.1 * marginal_penalty / (1 - marginal_penalty)
    limit = rho * (c / mass).log()
    torch.testing.assert_close(late - late.mean(), limit - limit.mean(), atol=1e-9, rtol=0)


def test_strict_is_sinkhorn_to_the_bit():
    scores = cosines(30, 20).float()
    plain = sinkhorn(scores, temperature=0.05)
    strict = sinkhorn(scores, temperature=0.05, marginal_penalty=1.0)
    assert torch.equal(plain.rows, strict.rows) and torch.equal(plain.columns, strict.columns)
    with pytest.raises(ValueError, match=r'marginal_penalty must lie in \[0, 1\], not 1.5'):
        sinkhorn(scores, temperature=0.05, marginal_penalty=1.5)
