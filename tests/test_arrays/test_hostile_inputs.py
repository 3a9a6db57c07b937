"""No list of ids, no vector that float32 holds, no number: refused, with the true reason."""

import numpy as np
import pytest
import torch

import mmvtr
from mmvtr import functional
from mmvtr.functional.transforms.transform_table import TRANSFORMS, checked_options

X = np.random.default_rng(0).normal(size=(40, 8)).astype('f4')
T = torch.from_numpy(X)
NAMES = [f'v{i}' for i in range(40)]
MASKED = np.ma.array(X, mask=np.zeros_like(X, bool))
MASKED[3] = np.ma.masked

#: Ids in no order, or none at all.
UNORDERED = dict(
    set=set(NAMES),
    frozenset=frozenset(NAMES),
    keys=dict.fromkeys(NAMES).keys(),
    values=dict(enumerate(NAMES)).values(),
    items=dict(enumerate(NAMES)).items(),
    dict=dict.fromkeys(NAMES),
    generator=(x for x in NAMES),
    iterator=iter(NAMES),
    map=map(str, NAMES),
    text='a' * 40,
    bytes=b'a' * 40,
    number=40,
    masked=np.ma.array(np.arange(40), mask=np.arange(40) == 3),
)


@pytest.mark.parametrize('kind', UNORDERED)
def test_ids_are_a_sequence(kind, tmp_path):
    ids = UNORDERED[kind]
    doors = [
        lambda: mmvtr.fit(X, ids=ids),
        lambda: mmvtr.retrieve(X, X, ids=ids),
        lambda: mmvtr.fit(X, ids=NAMES).add(X, ids=ids),
        lambda: mmvtr.hub_report(np.tile(X, (2, 1)), np.tile(X, (2, 1)), ids=ids),
    ]
    try:
        from mmvtr_gallery.mteb_index import DebiasedIndex
        from mmvtr_gallery.store import create_store

        store = create_store(tmp_path / 's', 8)
        doors += [
            lambda: store.add(ids, X),
            lambda: store.add(NAMES, X, paths=ids),
            lambda: store.add(NAMES, X, metadata=dict(kind=ids)),
            lambda: DebiasedIndex().add_documents(X, ids),
        ]
    except ImportError:
        pass
    for door in doors:
        with pytest.raises(TypeError, match='must be a list or another sequence|masked array'):
            door()


@pytest.mark.parametrize(
    'ids', [NAMES, tuple(NAMES), np.array(NAMES), range(40), torch.arange(40), np.arange(40)[::-1]]
)
def test_sequences_are_taken_in_order(ids):
    found = mmvtr.fit(X, ids=ids).search(X, 1).ids[:, 0]
    assert found.tolist() == [x.item() if hasattr(x, 'item') else x for x in ids]


def scaled(x, row=3, dtype='f4'):
    out = X.astype(dtype)
    out[row] = out[row] / np.linalg.norm(out[row]) * np.array(x, dtype)
    return out


BEYOND = r'row 3 has the length \S+, out of the range of float32'
SUMS = r'row 3 has the length \S+; sums of inner products leave float32'


@pytest.mark.parametrize(
    'rows, geometry, said',
    [
        (np.where(np.arange(40)[:, None] == 3, 2e38 * np.sign(X), X), 'cosine', BEYOND),
        (scaled(1e300, dtype='f8'), 'cosine', BEYOND),
        (scaled(1e-300, dtype='f8'), 'cosine', BEYOND),
        (scaled(1e-42), 'cosine', BEYOND),
        (scaled(3e38) * 2, 'cosine', BEYOND + '|not finite'),
        (scaled(1e25), 'inner_product', SUMS),
        (scaled(1e-30), 'inner_product', SUMS),
        (scaled(1e200, dtype='f8'), 'inner_product', SUMS),
        (scaled(0.0), 'cosine', 'row 3 is all zeros'),
        (scaled(np.inf), 'cosine', 'row 3 is not finite'),
        (scaled(np.nan, dtype='f8'), 'inner_product', 'row 3 is not finite'),
    ],
)
def test_lengths_that_float32_does_not_hold(rows, geometry, said):
    how = dict(geometry=geometry)
    for as_given in (np.asarray, torch.as_tensor):
        for door in (
            lambda x: mmvtr.fit(x, **how),
            lambda x: mmvtr.fit(X, **how).search(x),
            lambda x: mmvtr.fit(X, x, 'nnn', **how),
            lambda x: mmvtr.fit(X, (X, x), 'nnn', **how),
            lambda x: mmvtr.fit(X, **how).add(x),
        ):
            with pytest.raises(ValueError, match=said):
                door(as_given(rows))


@pytest.mark.parametrize('length', [1e-37, 1e-20, 1e20, 3e37])
def test_lengths_that_it_holds(length):
    expected = mmvtr.fit(X).search(X, 5)
    found = mmvtr.fit(scaled(length)).search(scaled(length), 5)
    assert np.array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)


@pytest.mark.parametrize('length', [0.0, 1e-14, 1e14])
def test_inner_products_that_it_holds(length):
    rows = scaled(length)
    found = mmvtr.fit(rows, (X[:30], X[:30]), 'sinkhorn', geometry='inner_product').search(rows, 5)
    assert np.isfinite(found.debiased).all()


def test_large_scores_have_a_reach():
    """Their float32 sums overflow."""
    scores = 1e37 * torch.from_numpy(X)
    exact = (scores.double().amax(1) - scores.double().mean(1)).mean().item()
    assert functional.score_gap(scores) == pytest.approx(exact, rel=1e-6)


#: What holds no plain numbers, and what the sentence names.
UNREADABLE = dict(
    masked=(MASKED, 'masked array: give'),
    sparse=(T.to_sparse(), r'sparse_coo tensor: give .*to_dense'),
    csr=(T.to_sparse_csr(), r'sparse_csr tensor: give .*to_dense'),
    meta=(T.to('meta'), 'meta device'),
    quantized=(torch.quantize_per_tensor(T, 0.1, 0, torch.qint8), 'dequantize'),
    nested=(torch.nested.nested_tensor([T[0], T[1]]), 'nested tensor'),
)


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('kind', UNREADABLE)
def test_what_holds_no_plain_numbers(kind):
    given, said = UNREADABLE[kind]
    doors = [
        lambda: mmvtr.fit(given),
        lambda: mmvtr.fit(X).search(given),
        lambda: mmvtr.fit(X, given),
        lambda: mmvtr.hub_report(given, X),
    ]
    functions = [
        lambda: functional.ranks(given),
        lambda: functional.csls(T, given, neighbours=1),
        lambda: functional.contrastive(given, torch.eye(40, 8).bool()),
        lambda: functional.skewness(given),
    ]
    for door in doors if kind == 'meta' else doors + functions:  # a model may be built on meta
        with pytest.raises(TypeError, match=said):
            door()


def test_an_array_without_masked_entries_is_an_array():
    assert mmvtr.fit(np.ma.array(X)).search(X, 1).ids[:, 0].tolist() == [*range(40)]


def test_a_list_as_bank():
    for name in ('csls', 'sinkhorn_scores', 'qb_norm', 'nnn'):
        with pytest.raises(
            TypeError, match=r'bank must be a numpy array or a torch tensor, not list'
        ):
            getattr(functional, name)(
                T, X.tolist(), **({} if name in ('csls', 'nnn') else dict(temperature=1))
            )


def test_one_query_whose_scores_tie():
    """Alone, as in a batch."""
    bank, scores = T[:20], torch.tensor([[0.5] * 8, [*range(8)]])
    both = functional.sinkhorn_scores(scores, bank, temperature=0.5)
    assert torch.equal(functional.sinkhorn_scores(scores[:1], bank, temperature=0.5), both[:1])
    with pytest.raises(ValueError, match='bank .* is all one value'):
        functional.sinkhorn_scores(scores, torch.ones(3, 8), temperature=0.5)


NUMBERS = [
    (transform, option)
    for transform in TRANSFORMS
    if 'bank' in TRANSFORMS[transform].reads
    for option in TRANSFORMS[transform].options
    if option != 'bank_marginals'
]


@pytest.mark.parametrize('transform, option', NUMBERS)
@pytest.mark.parametrize('value', [True, '10', 10**12, float('nan'), [1], 1j])
def test_options_are_numbers_in_range(transform, option, value):
    needed = {x: 0.5 for x in TRANSFORMS[transform].needs}
    fits = {
        True: option == 'dynamic',
        10**12: option not in ('iterations', 'share', 'marginal_penalty', 'dynamic'),
    }
    given = {**needed, option: value}
    if type(value) in (bool, int) and fits[value]:
        assert checked_options(transform, given)[option] == value
        return
    with pytest.raises(ValueError, match=option):
        checked_options(transform, given)
